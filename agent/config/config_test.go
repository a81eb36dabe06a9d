package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

func write(t *testing.T, text string) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, File), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestLoad(t *testing.T) {
	if a, err := Load(t.TempDir()); err != nil || !reflect.DeepEqual(a, Agent{}) {
		t.Fatalf("no file: %+v, %v", a, err)
	}
	dir := write(t, "repository: \"https://git.example.net/fleet.git\"\nhost: \"a1\"\nrefresh: \"5s\"\nevaluation: memory_mib: 256\nwebhook: {bind: \"127.0.0.1:8455\", secret_file: \"/etc/stado/webhook\"}\nssh_keepalive: {seconds: 15, count_max: 3}\nmirrors: [{repository: \"/srv/fleet.git\"}, {repository: \"https://mirror.example.net/fleet.git\", credential_file: \"/etc/stado/mirror\"}]\n")
	want := Agent{Repository: "https://git.example.net/fleet.git", Host: "a1", Refresh: 5 * time.Second, Evaluation: Evaluation{MemoryMiB: 256}, Webhook: Webhook{Bind: "127.0.0.1:8455", SecretFile: "/etc/stado/webhook"}, SSHKeepalive: SSHKeepalive{15, 3}, Mirrors: []Mirror{{Repository: "/srv/fleet.git"}, {Repository: "https://mirror.example.net/fleet.git", CredentialFile: "/etc/stado/mirror"}}}
	if a, err := Load(dir); err != nil || !reflect.DeepEqual(a, want) {
		t.Fatalf("got %+v, %v", a, err)
	}
}

func TestLoadRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"repo: \"x\"\n":                                  "agent.cue:1:1: repo: field not allowed",
		"host: \"a1\"\nrefresh: 5\n":                     "agent.cue:2:10",
		"host: \"Not A Host\"\n":                         "agent.cue:1:7",
		"refresh: \"0s\"\n":                              "which is not a duration above zero",
		"host: \"a1\"\nssh_keepalive: seconds: 15\n":     "ssh_keepalive.count_max",
		"mirrors: [{branch: \"main\"}]\n":                "mirrors.0.repository",
		"mirrors: [\"https://git.example.net/f.git\"]\n": "agent.cue:1:11",
		"evaluation: memory_mib: 1\n":                    "agent.cue:1:25",
		"webhook: bind: \"127.0.0.1:1\"\n":               "webhook.secret_file: ",
		"webhook: {bind: \"x\", secret_file: \"/s\"}\n":  "agent.cue:1:17",
		"host: \"a1\n":                                   "agent.cue:1",
		"evaluation: cpu: 1\nhost: \"a1\"\n":             "agent.cue:1",
	} {
		_, err := Load(write(t, text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q says %v; want %q", text, err, want)
		}
	}
}

func TestHomes(t *testing.T) {
	user := t.TempDir()
	t.Setenv("HOME", user)
	t.Setenv("STADO_HOME", "")
	if err := os.MkdirAll(filepath.Join(user, ".stado"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(user, ".stado", "doc.json"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := FindHome("doc.json"); err != nil || got != filepath.Join(user, ".stado") {
		t.Errorf("a client must find the published file: %q, %v", got, err)
	}
	t.Setenv("STADO_HOME", "/elsewhere")
	if got, err := FindHome("doc.json"); err != nil || got != "/elsewhere" {
		t.Errorf("STADO_HOME must win: %q, %v", got, err)
	}
	if got, err := DefaultHome(); err != nil || got != "/elsewhere" {
		t.Errorf("got %q, %v", got, err)
	}
}
