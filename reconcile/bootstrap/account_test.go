package bootstrap_test

import (
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/reconcile/bootstrap"
)

const (
	keyA = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMas"
	keyB = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIMat"
)

func TestAccountPlan(t *testing.T) {
	t.Parallel()
	there := bootstrap.AccountFacts{System: "Linux", Login: "root", Exists: true, Shell: "/bin/bash", Home: "/home/relay"}
	with := func(change func(*bootstrap.AccountFacts)) bootstrap.AccountFacts {
		f := there
		change(&f)
		return f
	}
	const file = "keys /home/relay/.ssh/authorized_keys: "
	for _, tc := range []struct {
		name   string
		facts  bootstrap.AccountFacts
		remove bool
		want   []string
		text   string // of authorized_keys
		says   string
	}{
		{
			name: "none there", facts: bootstrap.AccountFacts{System: "Linux", Login: "root"},
			want: []string{"account relay: with a shell and without a password", file + "2 added, now 2"},
			text: "restrict,port-forwarding " + keyA + "\nrestrict,port-forwarding " + keyB + "\n",
		},
		{
			name: "one key there, with options of its own", facts: with(func(f *bootstrap.AccountFacts) {
				f.Keys = []string{"# mine", `command="date " ` + keyA + " a word", ""}
			}),
			want: []string{file + "1 added, now 4"}, text: "# mine\ncommand=\"date \" " + keyA + " a word\n\nrestrict,port-forwarding " + keyB + "\n",
		},
		{
			name: "a key that is commented out, and one that begins alike", facts: with(func(f *bootstrap.AccountFacts) { f.Keys = []string{"# " + keyA, keyA + "x", keyB} }),
			want: []string{file + "1 added, now 4"}, text: "# " + keyA + "\n" + keyA + "x\n" + keyB + "\nrestrict,port-forwarding " + keyA + "\n",
		},
		{name: "as wanted", facts: with(func(f *bootstrap.AccountFacts) { f.Keys = []string{keyB, "restrict " + keyA} })},
		{
			name: "no login, locked", facts: with(func(f *bootstrap.AccountFacts) {
				f.Keys, f.Shell, f.Locked = []string{keyA, keyB}, "/usr/sbin/nologin", true
			}),
			want: []string{"shell relay: /usr/sbin/nologin to /bin/sh", "unlock relay: it stays without a password"},
		},
		{
			name: "taken away", remove: true, facts: with(func(f *bootstrap.AccountFacts) { f.Keys = []string{"x " + keyA, "other", keyB} }),
			want: []string{file + "2 removed, 1 left"}, text: "other\n",
		},
		{name: "taken away, and no account", remove: true, facts: bootstrap.AccountFacts{System: "Linux", Login: "root"}},
		{
			name: "its own login", facts: with(func(f *bootstrap.AccountFacts) {
				f.UID, f.Login, f.Shell, f.Keys = 1000, "relay", "/usr/sbin/nologin", []string{keyA}
			}),
			want: []string{file + "1 added, now 2"}, text: keyA + "\nrestrict,port-forwarding " + keyB + "\n",
		},
		{
			name: "another login", facts: with(func(f *bootstrap.AccountFacts) { f.UID, f.Login = 1000, "ops" }),
			says: "host a1 lets us in as ops, who may not change the account relay (give --login root, or --login relay)",
		},
		{name: "no tools", facts: with(func(f *bootstrap.AccountFacts) { f.Missing = []string{"su"} }), says: "host a1 has no su"},
		{name: "another system", facts: with(func(f *bootstrap.AccountFacts) { f.System = "FreeBSD" }), says: "stado is for Linux"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			a := bootstrap.Account{Host: "a1", User: "relay", Keys: []string{keyA, keyB}, Remove: tc.remove}
			plan, err := a.Plan(tc.facts)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error is %v, want %q", err, tc.says)
				}
				return
			}
			if err != nil || !slices.Equal(says(plan), tc.want) {
				t.Fatalf("got %q, %v", says(plan), err)
			}
			i := slices.IndexFunc(plan, func(s bootstrap.Step) bool { return s.Action == "keys" })
			if i >= 0 != (tc.text != "") || i >= 0 && string(plan[i].Stdin) != tc.text {
				t.Errorf("got %+v, want the text %q", plan, tc.text)
			}
			if i >= 0 && (plan[i].Words[0] == "su") != (tc.facts.Login != "relay") {
				t.Errorf("the keys are written by %q for a login of %s", plan[i].Words, tc.facts.Login)
			}
		})
	}
}

func TestAccountCheck(t *testing.T) {
	t.Parallel()
	for user, good := range map[string]bool{
		"relay": true, "_a-1": true, "": false, "-x": false, "a b": false, "Root": false, "a;b": false, strings.Repeat("a", 33): false,
	} {
		if err := (bootstrap.Account{User: user}).Check(); (err == nil) != good {
			t.Errorf("%q: %v", user, err)
		}
	}
}

func FuzzParseAccountFacts(f *testing.F) {
	f.Add("motd\nstado-fact system Linux\nstado-fact uid 0\nstado-fact login root\nstado-fact account relay\nstado-fact shell /bin/sh\n" +
		"stado-fact home-directory /home/relay\nstado-fact locked yes\nstado-fact key " + keyA + "\nstado-fact key \nstado-fact end\n")
	f.Add("stado-fact uid 0\nstado-fact login x\nstado-fact account x\nstado-fact end\n")
	f.Add("stado-fact uid zero\n")
	f.Fuzz(func(t *testing.T, answer string) {
		got, err := bootstrap.ParseAccountFacts(answer)
		if err == nil && (got.Login == "" || got.UID < 0 || got.Exists && !strings.HasPrefix(got.Home, "/") || !strings.Contains(answer, "stado-fact end")) {
			t.Errorf("taken as complete: %+v", got)
		}
	})
}
