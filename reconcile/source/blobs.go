package source

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// sizes asks git for the sizes of blobs, by their headers; the answer is in the order of the question.
func (r Repository) sizes(ctx context.Context, hashes []string) ([]int64, error) {
	out := make([]int64, 0, len(hashes))
	err := r.stream(ctx, question(hashes), func(stdout io.Reader) error {
		answers := bufio.NewReader(stdout)
		for _, hash := range hashes {
			size, err := blobHeader(answers, hash)
			if err != nil {
				return err
			}
			out = append(out, size)
		}
		return nil
	}, "cat-file", "--batch-check")
	return out, err
}

// blobs reads blobs whose sizes passed the gate; the bound is for a header that lied. each is called with every blob's place in the
// question.
func (r Repository) blobs(ctx context.Context, hashes []string, each func(i int, data []byte)) error {
	return r.stream(ctx, question(hashes), func(stdout io.Reader) error {
		answers := bufio.NewReader(stdout)
		for i, hash := range hashes {
			size, err := blobHeader(answers, hash)
			if err != nil {
				return err
			}
			if size > maxFile {
				return fmt.Errorf("object %s is larger than its header said", hash)
			}
			data := make([]byte, size)
			if _, err := io.ReadFull(answers, data); err != nil {
				return fmt.Errorf("object %s is cut: %w", hash, err)
			}
			if _, err := answers.Discard(1); err != nil { // the line end behind it
				return fmt.Errorf("object %s is cut: %w", hash, err)
			}
			each(i, data)
		}
		return nil
	}, "cat-file", "--batch")
}

func question(hashes []string) io.Reader { return strings.NewReader(strings.Join(hashes, "\n") + "\n") }

// blobHeader reads `HASH blob SIZE`.
func blobHeader(r *bufio.Reader, hash string) (int64, error) {
	text, err := r.ReadString('\n')
	if err != nil {
		return 0, fmt.Errorf("git says nothing of object %s: %w", hash, err)
	}
	words := strings.Fields(text)
	if len(words) == 2 && words[1] == "missing" {
		return 0, fmt.Errorf("object %s is missing from the repository", hash)
	}
	if len(words) != 3 || words[0] != hash || words[1] != "blob" {
		return 0, fmt.Errorf("object %s is no blob: git says %s", hash, printable(strings.TrimSpace(text)))
	}
	return strconv.ParseInt(words[2], 10, 64)
}
