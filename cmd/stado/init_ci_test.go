package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"cuelang.org/go/cue/cuecontext"
	"cuelang.org/go/encoding/yaml"

	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

// forgeLab is a directory with the built program, a git configuration and stand-ins for what only a forge has.
type forgeLab struct {
	t   *testing.T
	dir string
	env []string
}

func newForgeLab(t *testing.T) *forgeLab {
	t.Helper()
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	l := &forgeLab{t: t, dir: dir, env: []string{
		"PATH=" + bin + string(os.PathListSeparator) + os.Getenv("PATH"), "HOME=" + dir, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C.UTF-8",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.net", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.net",
		"CUE_REGISTRY=none", "CUE_CACHE_DIR=" + filepath.Join(dir, ".cue"), "RUNNER_TEMP=" + filepath.Join(dir, "runner"),
		"GITHUB_ENV=" + filepath.Join(dir, "env"), "GITHUB_PATH=" + filepath.Join(dir, "path"), "GITHUB_OUTPUT=" + filepath.Join(dir, "output"),
	}}
	for _, d := range []string{bin, filepath.Join(dir, "runner")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(sandboxtest.Binary(t), filepath.Join(bin, "stado")); err != nil {
		t.Fatal(err)
	}
	return l
}

// command makes a program of the lab: a shell script.
func (l *forgeLab) command(name, script string) {
	l.write(filepath.Join("bin", name), "#!/bin/bash\n"+script, 0o755)
}

func (l *forgeLab) write(name, text string, mode os.FileMode) {
	l.t.Helper()
	if err := os.WriteFile(filepath.Join(l.dir, name), []byte(text), mode); err != nil {
		l.t.Fatal(err)
	}
}

func (l *forgeLab) read(name string) string {
	l.t.Helper()
	text, err := os.ReadFile(filepath.Join(l.dir, name))
	if err != nil {
		l.t.Fatal(err)
	}
	return string(text)
}

// try runs a command in a directory of the lab.
func (l *forgeLab) try(dir string, env []string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	for _, v := range l.env {
		if p, ok := strings.CutPrefix(v, "PATH="); ok {
			for _, d := range filepath.SplitList(p) {
				if f := filepath.Join(d, args[0]); isExecutable(f) {
					cmd.Path, cmd.Err = f, nil
					break
				}
			}
		}
	}
	cmd.Dir, cmd.Env = filepath.Join(l.dir, dir), slices.Concat(l.env, env)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (l *forgeLab) run(dir string, args ...string) string {
	l.t.Helper()
	out, err := l.try(dir, nil, args...)
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// step runs a step's script as a runner does.
func (l *forgeLab) step(dir, script string, env ...string) (string, error) {
	l.write("step.sh", script, 0o644)
	return l.try(dir, env, "bash", "--noprofile", "--norc", "-eo", "pipefail", filepath.Join(l.dir, "step.sh"))
}

// race makes a repository whose HEAD is the merge of two changes that both wrote the next generation, as their authors do.
func (l *forgeLab) race() {
	l.t.Helper()
	l.run("", "stado", "init", "fleet", "--host", "a1")
	for branch, change := range map[string]string{"ada": "s/7701/7702/", "bob": "s/refresh_seconds:   5/refresh_seconds:   6/"} {
		l.run("fleet", "git", "checkout", "-q", "-b", branch, "main")
		l.run("fleet", "sed", "-i", "s/generation: 1/generation: 2/", "generation.cue")
		l.run("fleet", "sed", "-i", change, "hosts/a1.cue")
		l.run("fleet", "git", "commit", "-qam", branch)
	}
	l.run("fleet", "git", "checkout", "-q", "main")
	l.run("fleet", "git", "merge", "-q", "--no-ff", "-m", "ada", "ada")
	l.run("fleet", "git", "merge", "-q", "--no-ff", "-m", "bob", "bob")
}

// document decodes a YAML file.
func document[T any](t *testing.T, file string) T {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := yaml.Extract(file, text)
	if err != nil {
		t.Fatal(err)
	}
	var out T
	if err := cuecontext.New().BuildFile(parsed).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

// workflow is what the tests look at in a workflow or an action.
type workflow struct {
	On          map[string]any    `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		Permissions map[string]string `json:"permissions"`
		Steps       []workflowStep    `json:"steps"`
	} `json:"jobs"`
	Runs struct {
		Steps []workflowStep `json:"steps"`
	} `json:"runs"`
}

type workflowStep struct {
	Name string `json:"name"`
	ID   string `json:"id"`
	Uses string `json:"uses"`
	Run  string `json:"run"`
}

func script(t *testing.T, steps []workflowStep, name string) string {
	t.Helper()
	for _, s := range steps {
		if (s.Name == name || s.ID == name) && s.Run != "" {
			return s.Run
		}
	}
	t.Fatalf("there is no step %s", name)
	return ""
}

// tool builds a tool that the tools file pins.
func tool(t testing.TB, pkg string) string {
	t.Helper()
	return sandboxtest.Build(t, pkg, "-modfile="+filepath.Join("..", "..", ".ci", "tools.mod"))
}

// What init writes for a forge is whole: plain cue and stado admit it, the linter of workflows has nothing to say, it is committed, and
// the jobs have no more rights than they need.
func TestInitForForges(t *testing.T) {
	t.Parallel()
	cue, actionlint := cueBinary(t), tool(t, "github.com/rhysd/actionlint/cmd/actionlint")
	for name, args := range map[string][]string{
		"github":                 {"--ci", "github"},
		"github with everything": {"--ci", "github", "--binary", "https://dl.example.net/stado?v=1", "--owner", "@acme/platform"},
		"gitlab":                 {"--ci", "gitlab"},
		"gitlab with everything": {"--ci", "gitlab", "--binary", "https://dl.example.net/stado", "--owner", "ops@example.net"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newForgeLab(t)
			l.run("", append([]string{"stado", "init", "fleet", "--host", "a1"}, args...)...)
			l.run("fleet", cue, "vet", "-c", "./...")
			if out := l.run("fleet", cue, "fmt", "--check", "--diff", "./..."); out != "" {
				t.Error(out)
			}
			if out := l.run("fleet", "stado", "vet", "--json"); !strings.Contains(out, `"ok": true`) || !strings.Contains(out, `"findings": []`) {
				t.Error(out)
			}
			if out := l.run("fleet", "git", "status", "--porcelain"); out != "" {
				t.Error(out)
			}
			if owned := l.read("fleet/CODEOWNERS"); strings.Contains(owned, "\n/generation.cue") != (len(args) > 2) {
				t.Errorf("CODEOWNERS:\n%s", owned)
			}
			file := ".gitlab-ci.yml"
			if args[1] == "github" {
				file = ".github/workflows/registry.yml"
				l.run("fleet", actionlint, "-shellcheck=", "-pyflakes=", file, ".github/workflows/registry-comment.yml")
			}
			digest, _, _ := strings.Cut(l.run("", "sha256sum", "bin/stado"), " ")
			text := l.read("fleet/" + file)
			if !strings.Contains(text, "STADO_SHA256: "+digest+"\n") {
				t.Errorf("%s does not name the digest %s of the program that wrote it:\n%s", file, digest, text)
			}
			if len(args) > 2 && !strings.Contains(text, "STADO_URL: "+args[3]+"\n") {
				t.Errorf("%s does not name %s", file, args[3])
			}
		})
	}
}

// The job that runs on what strangers wrote reads; the job that writes runs nothing of theirs.
func TestWorkflowRights(t *testing.T) {
	t.Parallel()
	l := newForgeLab(t)
	l.run("", "stado", "init", "fleet", "--host", "a1", "--ci", "github")
	folder := filepath.Join(l.dir, "fleet", ".github", "workflows")
	judge := document[workflow](t, filepath.Join(folder, "registry.yml"))
	for _, event := range []string{"pull_request", "merge_group", "push"} {
		if _, ok := judge.On[event]; !ok {
			t.Errorf("registry.yml does not run on %s", event)
		}
	}
	if len(judge.On) != 3 || len(judge.Permissions) != 1 || judge.Permissions["contents"] != "read" || judge.Jobs["judge"].Permissions != nil {
		t.Errorf("registry.yml: %v %v %v", judge.On, judge.Permissions, judge.Jobs["judge"].Permissions)
	}
	comment := document[workflow](t, filepath.Join(folder, "registry-comment.yml"))
	if _, ok := comment.On["workflow_run"]; !ok || len(comment.On) != 1 || len(comment.Permissions) != 0 {
		t.Errorf("registry-comment.yml: %v %v", comment.On, comment.Permissions)
	}
	for _, s := range comment.Jobs["comment"].Steps {
		if s.Uses != "" || strings.Contains(s.Run, "${{") || strings.Contains(s.Run, "stado vet ") || strings.Contains(s.Run, "git ") {
			t.Errorf("the job that may write runs %+v", s)
		}
	}
}

// The judging step on a real merge result: the race is found, beside its line, and a commit without a base is no success.
func TestJudgeStep(t *testing.T) {
	t.Parallel()
	l := newForgeLab(t)
	l.race()
	l.run("", "stado", "init", "generated", "--ci", "github")
	steps := document[workflow](t, filepath.Join(l.dir, "generated", ".github", "workflows", "registry.yml")).Jobs["judge"].Steps
	judge := script(t, steps, "judge the result of the merge")
	base := strings.TrimSpace(l.run("fleet", "git", "rev-parse", "HEAD^1"))
	for _, env := range [][]string{nil, {"BASE=" + base}} {
		out, err := l.step("fleet", judge, append(env, "GITHUB_STEP_SUMMARY="+filepath.Join(l.dir, "summary"))...)
		if err == nil || !strings.HasPrefix(out, "::error file=generation.cue,line=") || !strings.Contains(out, "stado bump --onto "+base) {
			t.Errorf("%v\n%s", err, out)
		}
	}
	if env := l.read("env"); env != "BASE="+base+"\nBASE="+base+"\n" {
		t.Errorf("GITHUB_ENV is %q", env)
	}
	if summary := l.read("summary"); strings.Count(summary, "### stado vet\n\n`refused: 1 finding(s)`") != 2 {
		t.Errorf("the summary is\n%s", summary)
	}
	l.run("fleet", "git", "checkout", "-q", "--orphan", "alone")
	l.run("fleet", "git", "commit", "-qm", "alone")
	if out, err := l.step("fleet", judge); err == nil {
		t.Errorf("no base, and yet a success:\n%s", out)
	}
}

// The install step takes the program with the digest that the workflow names, and no other.
func TestInstallStep(t *testing.T) {
	t.Parallel()
	l := newForgeLab(t)
	l.run("", "stado", "init", "fleet", "--host", "a1", "--ci", "github")
	steps := document[workflow](t, filepath.Join(l.dir, "fleet", ".github", "workflows", "registry.yml")).Jobs["judge"].Steps
	install := script(t, steps, "install stado")
	program := filepath.Join(l.dir, "bin", "stado")
	l.command("curl", `while [[ $1 != --output ]]; do shift; done; cp "$SERVED" "$2"`)
	digest, _, _ := strings.Cut(l.run("", "sha256sum", program), " ")
	env := []string{"STADO_URL=https://dl.example.net/stado", "STADO_SHA256=" + digest}
	if out, err := l.step("fleet", install, append(env, "SERVED=/bin/true")...); err == nil {
		t.Errorf("another program was installed:\n%s", out)
	}
	if out, err := l.step("fleet", install, append(env, "SERVED="+program)...); err != nil || l.read("path") != filepath.Join(l.dir, "runner", "bin")+"\n" {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := l.step("fleet", install, "STADO_URL=", "STADO_SHA256="+digest); err == nil || !strings.Contains(out, "set it to the https address") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The comment shows a hostile report as text: it cannot leave its block, and a link in it is not followed.
func TestCommentTreatsTheReportAsHostile(t *testing.T) {
	t.Parallel()
	l := newForgeLab(t)
	l.run("", "stado", "init", "fleet", "--host", "a1", "--ci", "github")
	steps := document[workflow](t, filepath.Join(l.dir, "fleet", ".github", "workflows", "registry-comment.yml")).Jobs["comment"].Steps
	comment := script(t, steps, "comment on the pull request")
	l.command("gh", `echo "gh $*" >>"$LAB/calls"
case "$*" in
*pulls*) echo "$PULLS" ;;
"run download"*) cp -r --no-dereference "$LAB/report" report ;;
*"issues/7/comments --jq"*) echo "$COMMENTS" ;;
*) cp body.md "$LAB/body.md" ;;
esac`)
	if err := os.Mkdir(filepath.Join(l.dir, "report"), 0o755); err != nil {
		t.Fatal(err)
	}
	hostile := "```\n@everyone <img src=http://x> [a](http://x)\n`````\n## all good\x1b[2J\u202e\xff\n<!-- stado registry -->"
	l.write("report/findings.txt", hostile+strings.Repeat("x", 40_000), 0o644)
	if err := os.Symlink("/etc/passwd", filepath.Join(l.dir, "report", "plan.txt")); err != nil {
		t.Fatal(err)
	}
	env := []string{"LAB=" + l.dir, "REPOSITORY=acme/fleet", "RUN=5", "CONCLUSION=failure", "HEAD_OWNER=eve", "HEAD_BRANCH=x&y", "HEAD_SHA=" + strings.Repeat("1", 40)}
	work := func(name string) string {
		if err := os.Mkdir(filepath.Join(l.dir, name), 0o755); err != nil {
			t.Fatal(err)
		}
		return name
	}
	if out, err := l.step(work("first"), comment, append(env, "PULLS=7", "COMMENTS=")...); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	body := l.read("body.md")
	const fence = "\n``````text\n"
	head, block, ok := strings.Cut(body, fence)
	inside, tail, closed := strings.Cut(block, "\n``````\n")
	if !ok || !closed || tail != "" || strings.Contains(head, "everyone") || !strings.HasPrefix(inside, "```\n@everyone") {
		t.Errorf("the report leaves its block:\n%.600s", body)
	}
	if strings.ContainsAny(body, "\x1b\u202e") || !utf8.ValidString(body) || strings.Contains(body, "root:") || len(body) > 65_536 {
		t.Errorf("%d bytes:\n%.600s", len(body), body)
	}
	if calls := l.read("calls"); !strings.Contains(calls, "head=eve:x&y") || !strings.Contains(calls, "--method POST repos/acme/fleet/issues/7/comments") {
		t.Errorf("calls:\n%s", calls)
	}
	if out, err := l.step(work("second"), comment, append(env, "PULLS=7", "COMMENTS=99\n100")...); err != nil || !strings.Contains(l.read("calls"), "--method PATCH repos/acme/fleet/issues/comments/99 ") {
		t.Errorf("%v\n%s%s", err, out, l.read("calls"))
	}
	if out, err := l.step(work("third"), comment, append(env, "PULLS=")...); err != nil || !strings.Contains(out, "no open pull request") {
		t.Errorf("%v\n%s", err, out)
	}
}

// The GitLab job on a real merge result: it fails, says why in the log, and leaves the report that GitLab shows.
func TestGitLabJob(t *testing.T) {
	t.Parallel()
	l := newForgeLab(t)
	l.race()
	l.run("", "stado", "init", "generated", "--ci", "gitlab")
	ci := document[struct {
		Judge struct{ Script []string } `json:"judge"`
	}](t, filepath.Join(l.dir, "generated", ".gitlab-ci.yml"))
	job := strings.Join(ci.Judge.Script, "\n")
	base := strings.TrimSpace(l.run("fleet", "git", "rev-parse", "HEAD^1"))
	for _, name := range []string{"CI_MERGE_REQUEST_TARGET_BRANCH_SHA", "CI_MERGE_REQUEST_DIFF_BASE_SHA"} {
		out, err := l.step("fleet", job, name+"="+base)
		var quality []struct{ Description string }
		if decoded := json.Unmarshal([]byte(l.read("fleet/gl-code-quality-report.json")), &quality); decoded != nil {
			t.Fatal(decoded)
		}
		if err == nil || !strings.Contains(out, "STADO-GEN-001") || len(quality) != 1 || !strings.Contains(quality[0].Description, "STADO-GEN-001") {
			t.Errorf("%v %v\n%s", err, quality, out)
		}
	}
	if out, err := l.step("fleet", job); err == nil || !strings.Contains(out, "names no base") {
		t.Errorf("%v\n%s", err, out)
	}
}
