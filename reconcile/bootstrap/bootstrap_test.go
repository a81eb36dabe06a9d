package bootstrap_test

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/examples/systemd"
	"stado.internal/stado/reconcile/bootstrap"
)

// program is one that runs here: this test.
func program(t testing.TB) []byte {
	t.Helper()
	data, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func wanted(t testing.TB, root string, start bootstrap.Init) bootstrap.Wanted {
	t.Helper()
	return bootstrap.Wanted{
		Host: "a1", Root: root, Init: start, Binary: program(t), Unit: systemd.Unit,
		Config: bootstrap.Config{Repository: "ssh://git@git.example.net/srv/fleet.git", Branch: "live", Identity: []byte("a key\n"), KnownHosts: []byte("a host\n")},
	}
}

// root is what a host says on which nothing is installed yet.
func root() bootstrap.Facts {
	return bootstrap.Facts{System: "Linux", Machine: machine(), Login: "root", Group: "root", Systemd: true, Files: map[string]bootstrap.Stat{}}
}

func machine() string {
	out, err := exec.Command("uname", "-m").Output()
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(out))
}

// after is what the host says once a plan is carried out.
func after(f bootstrap.Facts, plan []bootstrap.Step) bootstrap.Facts {
	f.Account, f.Home, f.Pending, f.Agent, f.Enabled, f.Active = true, &bootstrap.Stat{Mode: 0o755, Owner: bootstrap.DefaultAccount}, false, 17, true, true
	for _, s := range plan {
		if s.Action == "write" {
			mode := map[string]fs.FileMode{"0755": 0o755, "0644": 0o644, "0600": 0o600}[s.Words[5]]
			f.Files[s.Path] = bootstrap.Stat{SHA256: s.SHA256, Mode: mode, Owner: strings.TrimSuffix(s.Words[6], ":"), Ours: true}
		}
	}
	return f
}

func says(plan []bootstrap.Step) []string {
	var out []string
	for _, s := range plan {
		if !s.Silent {
			out = append(out, s.Action+" "+s.Path+": "+s.Detail)
		}
	}
	return out
}

func TestPlan(t *testing.T) {
	t.Parallel()
	w := wanted(t, "/", bootstrap.InitSystemd)
	plan, err := w.Plan(root())
	if err != nil {
		t.Fatal(err)
	}
	all := []string{
		"account stado: a system account without a login",
		"directory /var/lib/stado: mode 0755, owner stado",
		"write /usr/local/bin/stado: new",
		"write /var/lib/stado/identity: new",
		"write /var/lib/stado/known_hosts: new",
		"write /var/lib/stado/agent.cue: new",
		"write /etc/systemd/system/stado.service: new",
		"start stado.service: by systemd, which also starts it with the host",
	}
	if got := says(plan); !slices.Equal(got, all) {
		t.Errorf("got %q", got)
	}
	for _, tc := range []struct {
		name   string
		change func(f *bootstrap.Facts, w *bootstrap.Wanted)
		want   []string
		says   string
	}{
		{name: "as wanted", change: func(*bootstrap.Facts, *bootstrap.Wanted) {}},
		{name: "cut off before the start", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.Pending = true }, want: all[7:]},
		{name: "stopped", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.Active = false }, want: all[7:]},
		{name: "not enabled", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.Enabled = false }, want: all[7:]},
		{
			name: "another program", change: func(_ *bootstrap.Facts, w *bootstrap.Wanted) { w.Binary = append(slices.Clone(w.Binary), 0) },
			want: []string{"write /usr/local/bin/stado: content", all[7]},
		},
		{
			name: "a key that others can read", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) {
				s := f.Files["/var/lib/stado/identity"]
				s.Mode, s.Owner = 0o644, "root"
				f.Files["/var/lib/stado/identity"] = s
			}, want: []string{"write /var/lib/stado/identity: mode 0644 to 0600, owner root to stado", all[7]},
		},
		{
			name: "the unit of somebody else", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) {
				f.Files["/etc/systemd/system/stado.service"] = bootstrap.Stat{SHA256: "another", Mode: 0o644, Owner: "root"}
			}, says: "host a1: somebody else wrote /etc/systemd/system/stado.service (--replace replaces it",
		},
		{
			name: "the unit of somebody else, replaced", change: func(f *bootstrap.Facts, w *bootstrap.Wanted) {
				f.Files["/etc/systemd/system/stado.service"] = bootstrap.Stat{SHA256: "another", Mode: 0o644, Owner: "root"}
				w.Replace = true
			}, want: []string{"write /etc/systemd/system/stado.service: content", all[7]},
		},
		{
			name: "another processor", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.Machine = "mips64" },
			says: "host a1 is mips64, and the program to install is for ",
		},
		{name: "another system", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.System = "FreeBSD" }, says: "host a1 runs FreeBSD, and stado is for Linux"},
		{name: "no root", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.UID, f.Login = 1000, "ops" }, says: "host a1 lets us in as ops, who may not install a service"},
		{name: "no systemd", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.Systemd = false }, says: "systemd does not run on host a1 (write --init none"},
		{name: "no tools", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.Missing = []string{"sha256sum", "stat"} }, says: "host a1 has no sha256sum, stat"},
		{name: "a directory in the way", change: func(f *bootstrap.Facts, _ *bootstrap.Wanted) { f.Unusable = []string{"/usr/local/bin/stado"} }, says: "/usr/local/bin/stado is not a plain file"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w, f := w, after(root(), plan)
			tc.change(&f, &w)
			got, err := w.Plan(f)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error is %v, want %q", err, tc.says)
				}
			} else if err != nil || !slices.Equal(says(got), tc.want) || len(tc.want) == 0 && len(got) > 0 {
				t.Errorf("got %q, %v", says(got), err)
			}
		})
	}
}

// The unit on a host is the one of the examples: word for word for a whole host, and for a directory with what has to differ.
func TestUnit(t *testing.T) {
	t.Parallel()
	_, body, _ := strings.Cut(systemd.Unit, "[Unit]")
	for _, tc := range []struct {
		root        string
		has, hasNot []string
	}{
		{"/", []string{body, "which replaces it when it runs again."}, []string{"useradd"}},
		{
			"/srv/x",
			[]string{"\nUser=root\n", "\nExecStart=/srv/x/usr/local/bin/stado agent run\n", "\nReadWritePaths=/srv/x/var/lib/stado\n", "\nProtectSystem=strict\n"},
			[]string{"StateDirectory", "=stado\nGroup"},
		},
	} {
		w := wanted(t, tc.root, bootstrap.InitSystemd)
		plan, err := w.Plan(root())
		if err != nil {
			t.Fatal(err)
		}
		i := slices.IndexFunc(plan, func(s bootstrap.Step) bool { return strings.HasSuffix(s.Path, "/etc/systemd/system/stado.service") })
		for _, s := range tc.has {
			if !strings.Contains(string(plan[i].Stdin), s) {
				t.Errorf("%s: no %q in\n%s", tc.root, s, plan[i].Stdin)
			}
		}
		for _, s := range tc.hasNot {
			if strings.Contains(string(plan[i].Stdin), s) {
				t.Errorf("%s: %q in\n%s", tc.root, s, plan[i].Stdin)
			}
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for says, change := range map[string]func(*bootstrap.Wanted){
		`--root "srv" is not a plain absolute path`:     func(w *bootstrap.Wanted) { w.Root = "srv" },
		`--root "/srv/$x" is not a plain absolute path`: func(w *bootstrap.Wanted) { w.Root = "/srv/$x" },
		`--root "/srv/.." is not a plain absolute path`: func(w *bootstrap.Wanted) { w.Root = "/srv/.." },
		`--init is "runit" (write systemd or none)`:     func(w *bootstrap.Wanted) { w.Init = "runit" },
		"is no Linux program":                           func(w *bootstrap.Wanted) { w.Binary = []byte("#!/bin/sh\n") },
	} {
		w := wanted(t, "/", bootstrap.InitNone)
		change(&w)
		if err := w.Check(); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want %q", err, says)
		}
	}
}

// carry runs a step on this machine.
func carry(t *testing.T, words []string, stdin []byte) (string, error) {
	t.Helper()
	var out bytes.Buffer
	x := exec.Command(words[0], words[1:]...)
	x.Stdin, x.Stdout, x.Stderr = bytes.NewReader(stdin), &out, &out
	err := x.Run()
	return out.String(), err
}

// Each step does what it says, with a real shell; a file that arrives in part is refused and nothing of it is left.
func TestCarriedOut(t *testing.T) {
	t.Parallel()
	w := wanted(t, t.TempDir(), bootstrap.InitSystemd)
	look := func() bootstrap.Facts {
		t.Helper()
		words, script, err := w.Look()
		if err != nil {
			t.Fatal(err)
		}
		answer, err := carry(t, words, []byte(script))
		if err != nil {
			t.Fatal(err, answer)
		}
		f, err := bootstrap.ParseFacts("a word of the login\n" + answer)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	plan, err := w.Plan(look())
	if err != nil || len(plan) != 6 {
		t.Fatalf("got %q, %v", says(plan), err)
	}
	for _, s := range plan {
		if s.Action == "write" {
			if said, err := carry(t, s.Words, s.Stdin[:len(s.Stdin)-1]); err == nil || !strings.Contains(said, "what arrived for "+s.Path+" has sha256 ") {
				t.Errorf("%s in part: %v, %q", s.Path, err, said)
			}
			if left, err := os.ReadDir(filepath.Dir(s.Path)); err != nil || slices.ContainsFunc(left, func(e fs.DirEntry) bool { return strings.Contains(e.Name(), filepath.Base(s.Path)) }) {
				t.Errorf("%s in part has left %v, %v", s.Path, left, err)
			}
		}
		if said, err := carry(t, s.Words, s.Stdin); err != nil || said != "" {
			t.Errorf("%s %s: %v, %q", s.Action, s.Path, err, said)
		}
	}
	if again, err := w.Plan(look()); err != nil || len(again) != 0 {
		t.Errorf("run again: %q, %v", says(again), err)
	}
	identity := filepath.Join(w.Home(), "identity")
	if info, err := os.Stat(identity); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if err := os.Remove(identity); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(identity, 0o755); err != nil {
		t.Fatal(err)
	}
	if f := look(); !slices.Equal(f.Unusable, []string{identity}) {
		t.Errorf("got %q", f.Unusable)
	}
}

func FuzzParseFacts(f *testing.F) {
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	f.Add("motd\nstado-fact system Linux\nstado-fact machine x86_64\nstado-fact uid 0\nstado-fact login root\nstado-fact group root\n" +
		"stado-fact home 755 stado\nstado-fact file " + sum + " 644 root ours /a b\nstado-fact unusable /x\nstado-fact agent 12\nstado-fact end\n")
	f.Add("stado-fact uid many\n")
	f.Add("stado-fact file short 644 root ours /a\n")
	f.Fuzz(func(t *testing.T, answer string) {
		got, err := bootstrap.ParseFacts(answer)
		if err != nil {
			return
		}
		if got.System == "" || got.Login == "" || got.UID < 0 || !strings.Contains(answer, "stado-fact end") {
			t.Errorf("taken as complete: %+v", got)
		}
		for path, s := range got.Files {
			if len(s.SHA256) != 64 || s.Mode > 0o7777 {
				t.Errorf("%s: %+v", path, s)
			}
		}
	})
}

// A host's answer is understood whole or not at all.
func TestParseFacts(t *testing.T) {
	t.Parallel()
	for answer, says := range map[string]string{
		"":                         `the host's answer about itself is not complete: ""`,
		"sh: not found\n":          "(a POSIX shell is needed as /bin/sh there)",
		"stado-fact uid many\n":    `the host says uid "many" of itself, which is not understood`,
		"stado-fact home 9 root\n": `the host says home "9 root" of itself`,
		"stado-fact file x\n":      `the host says file "x" of itself`,
	} {
		if _, err := bootstrap.ParseFacts(answer); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: error is %v, want %q", answer, err, says)
		}
	}
}
