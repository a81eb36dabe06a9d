package catfile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
)

// told is what a reader makes of an output of git: a line for each answer, until one that ends it.
func told(r io.Reader, limit int64) (out []string) {
	answers := NewReader(r)
	for {
		h, data, err := answers.Object(limit)
		answer, isAnswer := errors.AsType[*AnswerError](err)
		switch {
		case err == nil:
			out = append(out, fmt.Sprintf("%s: %q", h, data))
		case errors.Is(err, ErrLarge):
			out = append(out, h.String()+": too large")
		case isAnswer && answer.Missing:
			out = append(out, "nothing: "+answer.Line)
		default:
			return append(out, err.Error())
		}
	}
}

// Whatever git says is read as it is meant, however it arrives, and nothing that it does not say is taken for an answer.
func TestAnswers(t *testing.T) {
	for in, want := range map[string][]string{
		"": {"EOF"},
		"a1 blob 3\nabc\nb2 tree 0\n\nc3 commit 1\n\n\n": {`a1 blob 3: "abc"`, `b2 tree 0: ""`, `c3 commit 1: "\n"`, "EOF"},
		"main:a b missing\na1 tag 1\nx\n":                {"nothing: main:a b missing", `a1 tag 1: "x"`, "EOF"},
		"ab ambiguous\na1 submodule\n missing\n":         {"nothing: ab ambiguous", "nothing: a1 submodule", "nothing:  missing", "EOF"},
		"a1 blob 9\n123456789\nb2 blob 8\n12345678\n":    {"a1 blob 9: too large", `b2 blob 8: "12345678"`, "EOF"},
		"a1 blob 9\n12345":                               {"a1 blob 9: too large", "unexpected EOF"},
		"a1 blob 3":                                      {"unexpected EOF"},
		"a1 blob 3\nab":                                  {"unexpected EOF"},
		"a1 blob 3\nabc":                                 {"unexpected EOF"},
		"a1 blob 3\nabcd\n":                              {"the object does not end where its header says"},
		"a1 blob -1\n\n":                                 {`git cat-file says "a1 blob -1"`},
		"a1 blob +1\nx\n":                                {`git cat-file says "a1 blob +1"`},
		"a1 blob x\n\n":                                  {`git cat-file says "a1 blob x"`},
		"a1 blob 9223372036854775807\n":                  {`git cat-file says "a1 blob 9223372036854775807"`},
		"a1 file 1\nx\n":                                 {`git cat-file says "a1 file 1"`},
		" blob 1\nx\n":                                   {`git cat-file says " blob 1"`},
		"a1  blob 1\nx\n":                                {`git cat-file says "a1  blob 1"`},
		"blob 1\nx\n":                                    {`git cat-file says "blob 1"`},
		"fatal\n":                                        {`git cat-file says "fatal"`},
		"\n":                                             {`git cat-file says ""`},
		strings.Repeat("a", maxLine+1) + " blob 1\nx\n":  {`git cat-file says "` + strings.Repeat("a", 100) + `…"`},
		strings.Repeat("a", maxLine-9) + " missing\na1 ": {"nothing: " + strings.Repeat("a", maxLine-9) + " missing", "unexpected EOF"},
	} {
		for name, r := range map[string]io.Reader{"whole": strings.NewReader(in), "by bytes": iotest.OneByteReader(strings.NewReader(in))} {
			if diff := cmp.Diff(want, told(r, 8)); diff != "" {
				t.Errorf("%.60q %s: %s", in, name, diff)
			}
		}
	}
}

// What another reader says than that it is at its end is passed on.
func TestBrokenPipe(t *testing.T) {
	broken := errors.New("broken")
	for _, in := range []string{"", "a1 bl", "a1 blob 3\n", "a1 blob 3\nabc", "a1 blob 9\n12"} {
		got := told(io.MultiReader(strings.NewReader(in), iotest.ErrReader(broken)), 8)
		if got[len(got)-1] != "broken" {
			t.Errorf("%q: %q", in, got)
		}
	}
}

// The installed git is understood, in both of its forms.
func TestGit(t *testing.T) {
	dir := t.TempDir()
	git := func(in string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "git", append([]string{"-C", dir, "-c", "user.name=Ada", "-c", "user.email=ada@example.net"}, args...)...)
		cmd.Stdin = strings.NewReader(in)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %s: %v: %s", args, err, out)
		}
		return string(out)
	}
	git("", "init", "--quiet", "--initial-branch", "main")
	if err := os.WriteFile(filepath.Join(dir, "a b.cue"), []byte("one\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	git("", "add", "--all")
	git("", "commit", "--quiet", "--message", "files")
	const questions = "main:a b.cue\nmain:no thing\nmain^{tree}\nmain\n"
	batch := NewReader(strings.NewReader(git(questions, "cat-file", "--batch", "--buffer")))
	check := NewReader(strings.NewReader(git(questions, "cat-file", "--batch-check", "--buffer")))
	for _, want := range []string{"blob", "", "tree", "commit"} {
		h, data, err := batch.Object(1 << 20)
		short, errShort := check.Header()
		if h != short || (err == nil) != (want != "") || (errShort == nil) != (want != "") || h.Kind != want || int64(len(data)) != h.Size {
			t.Errorf("%q: %v %q %v, and %v %v", want, h, data, err, short, errShort)
		}
		if want == "blob" && string(data) != "one\n" {
			t.Errorf("the file has %q", data)
		}
	}
	if _, err := check.Header(); !errors.Is(err, io.EOF) {
		t.Errorf("after the last header: %v", err)
	}
}

// FuzzAnswers: of any bytes the answers that are read, one after the other, are those that stand there.
func FuzzAnswers(f *testing.F) {
	for _, in := range []string{
		"a1 blob 3\nabc\nmain:a b missing\nb2 tree 0\n\n", "a1 blob 9\n123456789\nb2 commit 1\n\n\n", "ab ambiguous\na1 tag 8\n12345678\n",
		"a1 blob -1\n\n", "a1 blob 007\n1234567\n", "a1 blob 3\nab", "a1 blob 3\nabcd\n", "a1 blob 4611686018427387903\n", "missing\n", "\n",
	} {
		f.Add([]byte(in), byte(8))
	}
	f.Fuzz(func(t *testing.T, in []byte, limit byte) {
		answers, rest := NewReader(bytes.NewReader(in)), in
		for {
			h, data, err := answers.Object(int64(limit))
			line, body, _ := bytes.Cut(rest, []byte("\n"))
			answer, isAnswer := errors.AsType[*AnswerError](err)
			switch {
			case isAnswer && answer.Missing:
				if answer.Line != string(line) {
					t.Fatalf("%q is read as %q", rest, answer.Line)
				}
				rest = body
				continue
			case err != nil && !errors.Is(err, ErrLarge):
				return
			}
			words := strings.Split(string(line), " ")
			size, err2 := strconv.ParseInt(words[len(words)-1], 10, 64)
			if len(words) != 3 || h.ID != words[0] || h.Kind != words[1] || err2 != nil || h.Size != size || (size > int64(limit)) != (err != nil) {
				t.Fatalf("%q is read as %v %v", rest, h, err)
			}
			if err == nil && !bytes.HasPrefix(body, append(bytes.Clone(data), '\n')) {
				t.Fatalf("%q is read as %q", rest, data)
			}
			rest = body[min(size+1, int64(len(body))):]
		}
	})
}
