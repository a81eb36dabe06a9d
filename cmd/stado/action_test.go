package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The steps of the composite action, with a registry in a directory of the repository.
func TestAction(t *testing.T) {
	t.Parallel()
	l := newForgeLab(t)
	l.race()
	action := document[workflow](t, filepath.Join("..", "..", "action.yml"))
	vet := script(t, action.Runs.Steps, "vet")
	out, err := l.step("", vet, "REGISTRY=fleet", "BASE=", "SARIF=true")
	if err == nil || !strings.Contains(out, "::error file=generation.cue,line=") {
		t.Errorf("%v\n%s", err, out)
	}
	sarif := filepath.Join(l.dir, "runner", "stado.sarif")
	base := strings.TrimSpace(l.run("fleet", "git", "rev-parse", "HEAD^1"))
	if got, want := l.read("output"), "base="+base+"\nsarif="+sarif+"\n"; got != want {
		t.Errorf("GITHUB_OUTPUT is %q, want %q", got, want)
	}
	if text, err := os.ReadFile(sarif); err != nil || !strings.Contains(string(text), `"ruleId": "STADO-GEN-001"`) {
		t.Errorf("%v\n%s", err, text)
	}
	if out, err := l.step("", vet, "REGISTRY=fleet", "BASE=HEAD", "SARIF=false"); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	install := script(t, action.Runs.Steps, "install")
	l.command("curl", `exit 9`)
	if out, err := l.step("", install, "URL=https://dl.example.net/stado", "SHA256="); err == nil || !strings.Contains(out, "give sha256 with binary") {
		t.Errorf("%v\n%s", err, out)
	}
	l.command("go", `echo "$PWD: go $*"; while [[ $1 != -o ]]; do shift; done; echo built >"$2"`)
	if out, err := l.step("", install, "URL=", "SOURCE="+l.dir); err != nil || l.read("runner/bin/stado") != "built\n" || !strings.Contains(out, l.dir+": go build") {
		t.Errorf("%v\n%s", err, out)
	}
}

// What pre-commit documents of a hook, and that its entry works in a repository as pre-commit runs it: without file names, at the top.
func TestPreCommitHooks(t *testing.T) {
	t.Parallel()
	l := newForgeLab(t)
	l.run("", "stado", "init", "fleet", "--host", "a1", "--ci", "github")
	type hook map[string]any
	config := document[struct {
		Repos []struct {
			Repo  string
			Hooks []hook
		}
	}](t, filepath.Join(l.dir, "fleet", ".pre-commit-config.yaml"))
	hooks := document[[]hook](t, filepath.Join("..", "..", ".pre-commit-hooks.yaml"))
	if len(hooks) != 2 || len(config.Repos) != 1 || config.Repos[0].Repo != "local" || len(config.Repos[0].Hooks) != 1 {
		t.Fatalf("%v %v", hooks, config)
	}
	ids := map[any]bool{}
	for i, h := range append(hooks, config.Repos[0].Hooks...) {
		for _, key := range []string{"id", "name", "entry", "language"} {
			if s, ok := h[key].(string); !ok || s == "" {
				t.Errorf("hook %d has no %s", i, key)
			}
		}
		for key := range h {
			if !slices.Contains([]string{"id", "name", "description", "entry", "language", "files", "pass_filenames", "require_serial", "stages"}, key) {
				t.Errorf("hook %d has the unknown key %s", i, key)
			}
		}
		for _, stage := range h["stages"].([]any) {
			if !slices.Contains([]any{"pre-commit", "pre-merge-commit", "manual"}, stage) {
				t.Errorf("hook %d runs at %v", i, stage)
			}
		}
		if h["pass_filenames"] != false || h["language"] != "system" && h["language"] != "golang" {
			t.Errorf("hook %d: %v", i, h)
		}
		if i < len(hooks) && ids[h["id"]] {
			t.Errorf("two hooks are %v", h["id"])
		}
		ids[h["id"]] = true
		entry := strings.Fields(h["entry"].(string))
		l.run("fleet", entry...)
		l.run("fleet", "sed", "-i", "s/hostnames:/bogus: 1, &/", "hosts/a1.cue")
		l.run("fleet", "git", "add", "-A")
		if out, err := l.try("fleet", nil, entry...); err == nil || !strings.Contains(out, "STADO-SCHEMA-002") {
			t.Errorf("hook %d: %v\n%s", i, err, out)
		}
		l.run("fleet", "git", "reset", "-q", "--hard")
	}
}
