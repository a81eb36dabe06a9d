package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"stado.internal/stado/reconcile/catfile"
)

// sizes asks git for the sizes of blobs, by their headers; the answer is in the order of the question.
func (r Repository) sizes(ctx context.Context, hashes []string) ([]int64, error) {
	out := make([]int64, 0, len(hashes))
	err := r.stream(ctx, question(hashes), func(stdout io.Reader) error {
		answers := catfile.NewReader(stdout)
		for _, hash := range hashes {
			h, err := answers.Header()
			if err = blobError(hash, h, err); err != nil {
				return err
			}
			out = append(out, h.Size)
		}
		return nil
	}, "cat-file", "--batch-check", "--buffer")
	return out, err
}

// blobs reads blobs whose sizes passed the gate; the bound is for a header that lied. each is called with every blob's place in the
// question.
func (r Repository) blobs(ctx context.Context, hashes []string, each func(i int, data []byte)) error {
	return r.stream(ctx, question(hashes), func(stdout io.Reader) error {
		answers := catfile.NewReader(stdout)
		for i, hash := range hashes {
			h, data, err := answers.Object(maxFile)
			if err = blobError(hash, h, err); err != nil {
				return err
			}
			each(i, data)
		}
		return nil
	}, "cat-file", "--batch", "--buffer")
}

func question(hashes []string) io.Reader { return strings.NewReader(strings.Join(hashes, "\n") + "\n") }

// blobError says what is wrong with the answer to a question for a blob; nil when nothing is.
func blobError(hash string, h catfile.Header, err error) error {
	if err == nil && h.ID == hash && h.Kind == "blob" {
		return nil
	}
	answer, isAnswer := errors.AsType[*catfile.AnswerError](err)
	switch {
	case isAnswer && answer.Missing:
		return fmt.Errorf("object %s is missing from the repository", hash)
	case isAnswer:
		return fmt.Errorf("object %s is no blob: git says %s", hash, printable(answer.Line))
	case h == (catfile.Header{}):
		return fmt.Errorf("git says nothing of object %s: %w", hash, err)
	case h.ID != hash || h.Kind != "blob":
		return fmt.Errorf("object %s is no blob: git says %s", hash, printable(h.String()))
	case errors.Is(err, catfile.ErrLarge):
		return fmt.Errorf("object %s is larger than its header said", hash)
	}
	return fmt.Errorf("object %s is cut: %w", hash, err)
}
