package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

const (
	guidePath = "../../docs/first-fleet.md"
	// guideHome is the directory that the guide starts in, as it is printed there.
	guideHome = "/home/ada/first"
	// guideBound is for everything in the guide together, a build included.
	guideBound = 5 * time.Minute
)

// What the words behind ```console mean. A block without one holds commands that succeed.
const (
	blockRefused    = "refused"    // its last command fails
	blockEventually = "eventually" // each command is repeated until it succeeds
)

// TestGuide does what docs/first-fleet.md says, in one shell, and wants the answers that are printed there. STADO_UPDATE=1 prints
// all of them anew when one differs.
func TestGuide(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(guidePath)
	if err != nil {
		t.Fatal(err)
	}
	blocks := guideBlocks(string(text))
	world := newGuideWorld(t, blocks)
	for i, b := range blocks {
		switch {
		case b.file != "":
			world.write(b)
		case b.console:
			for j := range b.commands {
				world.run(&blocks[i], j)
			}
		}
	}
	if len(world.real) == 0 {
		t.Fatal("the guide has no block that reaches a service")
	}
	got := guideText(blocks)
	if diff := cmp.Diff(strings.Split(guideVarying(string(text)), "\n"), strings.Split(guideVarying(got), "\n")); diff != "" {
		if os.Getenv("STADO_UPDATE") == "" {
			t.Fatalf("the guide prints something else than what happens (STADO_UPDATE=1 writes it anew):\n%s", diff)
		}
		if err := os.WriteFile(guidePath, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// guideBlock is a fenced block, or the text before one.
type guideBlock struct {
	text     string // as it is
	body     string // what stands between the fences
	file     string // the path of a file that the reader writes, which holds the body
	console  bool
	mode     string
	commands []guideCommand
}

type guideCommand struct {
	line, got string
}

var guideFile = regexp.MustCompile(`^// (\S+)\n`)

func guideBlocks(text string) []guideBlock {
	const fence = "```"
	var out []guideBlock
	for text != "" {
		before, rest, found := strings.Cut(text, "\n"+fence)
		if !found {
			return append(out, guideBlock{text: text})
		}
		info, rest, _ := strings.Cut(rest, "\n")
		body, after, _ := strings.Cut("\n"+rest, "\n"+fence)
		body = strings.TrimPrefix(body, "\n") + "\n"
		out = append(out, guideBlock{text: before + "\n"})
		b := guideBlock{text: fence + info + "\n" + body + fence, body: body}
		word, mode, _ := strings.Cut(info, " ")
		if word == "console" {
			b.console, b.mode, b.commands = true, mode, guideCommands(body)
		} else if m := guideFile.FindStringSubmatch(body); m != nil {
			b.file = m[1]
		}
		out = append(out, b)
		text = after
	}
	return out
}

func guideCommands(body string) []guideCommand {
	var out []guideCommand
	for line := range strings.Lines(body) {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			out = append(out, guideCommand{line: strings.TrimSuffix(command, "\n")})
		}
	}
	return out
}

// guideText is the guide with what happened in place of what it says.
func guideText(blocks []guideBlock) string {
	var b strings.Builder
	for _, block := range blocks {
		if !block.console {
			b.WriteString(block.text)
			continue
		}
		b.WriteString(strings.TrimRight("```console "+block.mode, " ") + "\n")
		for _, c := range block.commands {
			fmt.Fprintf(&b, "$ %s\n%s", c.line, c.got)
		}
		b.WriteString("```")
	}
	return b.String()
}

var (
	guideHash = regexp.MustCompile(`\b[0-9a-f]{7,64}\b`)
	guideTime = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}Z`)
)

// guideVarying takes away what no two runs have in common: object ids, which follow from the digest of the program in the workflows, and
// the time of the day.
func guideVarying(s string) string {
	return guideHash.ReplaceAllString(guideTime.ReplaceAllString(s, "TIME"), "HASH")
}

// guideWorld is a directory with a shell in it, and the ports of this machine that stand for those of the guide.
type guideWorld struct {
	t        *testing.T
	dir      string
	stdin    io.Writer
	answers  *bufio.Reader
	real     map[string]string // port of the guide → port here
	imagined map[string]string // and back
}

var (
	guideAddress = regexp.MustCompile(`127\.0\.0\.1:(\d+)\b`)
	guidePadding = regexp.MustCompile(`(?m)[ \t]+$`) // git pads the lines of a remote
)

func newGuideWorld(t *testing.T, blocks []guideBlock) *guideWorld {
	t.Helper()
	w := &guideWorld{t: t, dir: t.TempDir(), real: map[string]string{}, imagined: map[string]string{}}
	for _, b := range blocks {
		typed := b.body
		if b.console {
			typed = ""
			for _, c := range b.commands {
				typed += c.line + "\n"
			}
		}
		for _, m := range guideAddress.FindAllStringSubmatch(typed, -1) {
			if w.real[m[1]] == "" {
				port := strconv.Itoa(freeLoopbackPorts(t, 1)[0])
				w.real[m[1]], w.imagined[port] = port, m[1]
			}
		}
	}
	w.start(guideEnvironment(t))
	return w
}

// guideEnvironment is that of a person with a git identity and nothing else of their own.
func guideEnvironment(t *testing.T) []string {
	t.Helper()
	outside := t.TempDir()
	if err := os.Symlink(sandboxtest.Binary(t), filepath.Join(outside, "stado")); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(outside, "gitconfig")
	if err := os.WriteFile(config, []byte("[user]\n\tname = Ada\n\temail = ada@example.net\n[commit]\n\tgpgsign = false\n[gc]\n\tauto = 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const moment = "2026-01-02T03:04:05Z"
	return append(os.Environ(), "PATH="+outside+string(os.PathListSeparator)+os.Getenv("PATH"), "LC_ALL=C", "STADO_HOME=",
		"GIT_CONFIG_GLOBAL="+config, "GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_DATE="+moment, "GIT_COMMITTER_DATE="+moment)
}

func (w *guideWorld) start(environment []string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), guideBound)
	shell := exec.CommandContext(ctx, "bash", "--norc")
	shell.Dir, shell.Env = w.dir, environment
	// What the shell leaves running is of its process group, and ends with it.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	shell.Cancel = func() error { return syscall.Kill(-shell.Process.Pid, syscall.SIGKILL) }
	stdin, err := shell.StdinPipe()
	if err != nil {
		w.t.Fatal(err)
	}
	answers, into, err := os.Pipe()
	if err != nil {
		w.t.Fatal(err)
	}
	shell.Stdout, shell.Stderr = into, into
	if err := shell.Start(); err != nil {
		w.t.Fatal(err)
	}
	w.stdin, w.answers = stdin, bufio.NewReader(answers)
	w.t.Cleanup(func() {
		_, _ = w.ask("kill $(jobs -p); wait")
		cancel()
		_ = shell.Wait()
		if err := answers.Close(); err != nil {
			w.t.Error(err)
		}
	})
	if err := into.Close(); err != nil {
		w.t.Fatal(err)
	}
}

// ask has the shell execute one line, and reads what it says until it says the line's exit status.
func (w *guideWorld) ask(line string) (answer string, err error) {
	const mark = "\x1e"
	if _, err := fmt.Fprintf(w.stdin, "%s\nprintf '\\036%%d\\036' $?\n", line); err != nil {
		return "", err
	}
	if answer, err = w.answers.ReadString(mark[0]); err != nil {
		return answer, fmt.Errorf("the shell ended, or the guide took more than %s: %w", guideBound, err)
	}
	status, err := w.answers.ReadString(mark[0])
	if err == nil && status != "0"+mark {
		err = &guideStatus{strings.TrimSuffix(status, mark)}
	}
	return strings.TrimSuffix(answer, mark), err
}

// guideStatus is the exit status of a command that failed.
type guideStatus struct{ status string }

func (e *guideStatus) Error() string { return "exit status " + e.status }

// run executes a command of a block and keeps its answer in the guide's words.
func (w *guideWorld) run(b *guideBlock, i int) {
	w.t.Helper()
	line := b.commands[i].line
	for port, here := range w.real {
		line = strings.ReplaceAll(line, ":"+port, ":"+here)
	}
	answer, err := w.ask(line)
	for tick := time.NewTicker(100 * time.Millisecond); b.mode == blockEventually && isStatus(err); <-tick.C {
		answer, err = w.ask(line)
	}
	switch refused := isStatus(err); {
	case err != nil && !refused:
		w.t.Fatalf("%s: %v\n%s", line, err, answer)
	case refused != (b.mode == blockRefused && i == len(b.commands)-1):
		w.t.Fatalf("%s: it ends with %v, in a block that is %q\n%s", line, err, b.mode, answer)
	}
	answer = strings.ReplaceAll(answer, w.dir, guideHome)
	for here, port := range w.imagined {
		answer = strings.ReplaceAll(answer, ":"+here, ":"+port)
	}
	b.commands[i].got = guidePadding.ReplaceAllString(answer, "")
}

func isStatus(err error) bool {
	var status *guideStatus
	return errors.As(err, &status)
}

func (w *guideWorld) write(b guideBlock) {
	w.t.Helper()
	text := b.body
	for port, here := range w.real {
		text = strings.ReplaceAll(text, ":"+port, ":"+here)
	}
	if err := os.WriteFile(filepath.Join(w.dir, filepath.FromSlash(b.file)), []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}
