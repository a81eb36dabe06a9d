package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/durable"
	"stado.internal/stado/schema"
)

// fmtAnswer is the JSON answer of `stado fmt`.
type fmtAnswer struct {
	OK       bool           `json:"ok"`
	Checked  int            `json:"checked"`
	Changed  []string       `json:"changed"` // files that are, or with --check would be, written
	Findings fleet.Findings `json:"findings"`
}

func newFmt(a *app) *cobra.Command {
	var check, asJSON bool
	c := &cobra.Command{
		Use:   "fmt [DIR]",
		Short: "Format the CUE files of a registry repository",
		Long: `Write the CUE files of the registry repository DIR (default: this directory) in the canonical form of cue fmt, and list those that
changed. What is vendored below cue.mod is left alone, and so are names that start with a dot or an underscore. When one file is not CUE,
none is written. Each file is replaced as a whole.

Exit status: 0; 1 when a file is not CUE, or with --check when one is not formatted; 2 usage.`,
		Example: "  stado fmt\n  stado fmt --check fleet",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			if err := requireRepository(dir); err != nil {
				return refused(err)
			}
			answer, texts, err := formatRepository(dir)
			if err != nil {
				return refused(err)
			}
			if answer.OK && !check {
				for _, f := range texts {
					if err := f.write(dir); err != nil {
						return refused(err)
					}
				}
			}
			if check {
				answer.OK = answer.OK && len(answer.Changed) == 0
			}
			return a.answerFmt(answer, asJSON)
		},
	}
	c.Flags().BoolVar(&check, "check", false, "write nothing; list the files that are not formatted and exit 1 if any is")
	c.Flags().BoolVar(&asJSON, "json", false, "print the answer as JSON")
	return c
}

func (a *app) answerFmt(answer fmtAnswer, asJSON bool) error {
	if asJSON {
		if err := a.printJSON(answer); err != nil {
			return refused(err)
		}
	} else {
		for _, f := range answer.Findings {
			fmt.Fprintln(a.stdout, f)
		}
		for _, p := range answer.Changed {
			fmt.Fprintln(a.stdout, p)
		}
	}
	switch {
	case len(answer.Findings) > 0:
		return refused(fmt.Errorf("nothing was written: %d finding(s) in files that are not CUE", len(answer.Findings)))
	case !answer.OK:
		return refused(fmt.Errorf("%d file(s) are not formatted (run `stado fmt`)", len(answer.Changed)))
	}
	return nil
}

// formatted is a file whose canonical text differs from what lies there.
type formatted struct {
	path string // inside the repository, with slashes
	text []byte
	mode fs.FileMode
}

func (f formatted) write(dir string) error {
	full := filepath.Join(dir, filepath.FromSlash(f.path))
	return durable.Folder{Path: filepath.Dir(full)}.Write(filepath.Base(full), f.text, f.mode)
}

// formatRepository formats every file in memory. The answer has no changes when it has findings.
func formatRepository(dir string) (fmtAnswer, []formatted, error) {
	answer := fmtAnswer{OK: true, Changed: []string{}, Findings: fleet.Findings{}}
	var out []formatted
	err := ownFiles(dir, func(p string, info fs.FileInfo) error {
		answer.Checked++
		if info.Size() > maxReadSize {
			return fmt.Errorf("%s has %d bytes, which is no registry file", p, info.Size())
		}
		data, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(p)))
		if err != nil {
			return err
		}
		text, findings := schema.Format(schema.File{Path: p, Data: data})
		if findings != nil {
			answer.Findings = append(answer.Findings, findings...)
		} else if !bytes.Equal(text, data) {
			out = append(out, formatted{path: p, text: text, mode: info.Mode().Perm()})
			answer.Changed = append(answer.Changed, p)
		}
		return nil
	})
	if len(answer.Findings) > 0 {
		answer.Findings.Sort()
		answer.OK, answer.Changed, out = false, []string{}, nil
	}
	return answer, out, err
}

// maxReadSize is above every size that the schema's gates let pass: what is larger is not read into memory to be refused.
const maxReadSize = 16 << 20

// ownFiles visits the CUE files that people write, in lexical order: not what is vendored in cue.mod, not what cue skips by name, and
// only plain files, since a link may lead anywhere.
func ownFiles(dir string, visit func(p string, info fs.FileInfo) error) error {
	return fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		skip := p != "." && strings.ContainsRune("._", rune(d.Name()[0]))
		if d.IsDir() {
			if skip || p == "cue.mod/pkg" || p == "cue.mod/gen" || p == "cue.mod/usr" {
				return fs.SkipDir
			}
			return nil
		}
		if skip || !d.Type().IsRegular() || !strings.HasSuffix(p, ".cue") {
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		return visit(p, info)
	})
}
