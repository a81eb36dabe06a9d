package bootstrap_test

import (
	"slices"
	"strings"
	"testing"

	"stado.internal/stado/reconcile/bootstrap"
)

const status = `{"home": "/var/lib/stado", "running": true, "resolver": {"state": "`

func TestRecover(t *testing.T) {
	t.Parallel()
	w := bootstrap.Wanted{Host: "a1", Root: "/"}
	files := map[string]bootstrap.Stat{"/usr/local/bin/stado": {}, "/var/lib/stado/agent.cue": {}, "/etc/systemd/system/stado.service": {}}
	without := func(file string) map[string]bootstrap.Stat {
		out := map[string]bootstrap.Stat{}
		for name := range files {
			if name != file {
				out[name] = bootstrap.Stat{}
			}
		}
		return out
	}
	const unit, alone = "start stado.service: by systemd, which also starts it with the host", "start /usr/local/bin/stado: left to itself; its log is /var/lib/stado/agent.log"
	for _, tc := range []struct {
		name  string
		facts bootstrap.Facts
		anew  bool
		state bootstrap.AgentState
		found string
		want  string
		says  string
	}{
		{
			name: "serves", facts: bootstrap.Facts{Agent: 7, Said: status + `serving", "listening": true, "generation": 4}}`, Systemd: true, Files: files},
			state: bootstrap.AgentServes, found: "the agent is serving at generation 4",
		},
		{
			name: "serves while the authority is silent", facts: bootstrap.Facts{Agent: 7, Said: status + `backing_off", "listening": true, "generation": 4, "reason": "no answer"}}`, Files: files},
			state: bootstrap.AgentServes, found: "the agent is backing_off at generation 4: no answer",
		},
		{
			name: "serves, and is to start anew", facts: bootstrap.Facts{Agent: 7, Said: status + `serving", "listening": true, "generation": 4}}`, Systemd: true, Files: files}, anew: true,
			state: bootstrap.AgentServes, found: "the agent is serving at generation 4", want: unit,
		},
		{
			name: "waits for its first read", facts: bootstrap.Facts{Agent: 7, Said: status + `starting", "listening": false, "reason": "reading"}}`, Files: files},
			state: bootstrap.AgentRuns, found: "the agent is starting: reading",
		},
		{
			name: "does not answer", facts: bootstrap.Facts{Agent: 7, Said: "no answer\n", Systemd: true, Files: files},
			state: bootstrap.AgentSilent, found: "the agent with pid 7 does not answer: no answer", want: unit,
		},
		{
			name: "has a process and is not there", facts: bootstrap.Facts{Agent: 7, Said: `{"running": false, "resolver": null}`, Files: files},
			state: bootstrap.AgentSilent, found: "the agent with pid 7 does not answer", want: alone,
		},
		{name: "stopped, without systemd", facts: bootstrap.Facts{Said: `{"running": false}`, Files: files}, state: bootstrap.AgentStopped, found: "no agent runs", want: alone},
		{
			name: "stopped, without a unit", facts: bootstrap.Facts{Systemd: true, Files: without("/etc/systemd/system/stado.service")},
			state: bootstrap.AgentStopped, found: "no agent runs", want: alone,
		},
		{
			name: "no program", facts: bootstrap.Facts{Files: without("/usr/local/bin/stado")}, state: bootstrap.AgentStopped, found: "no agent runs",
			says: "host a1 has no /usr/local/bin/stado (run: stado host bootstrap a1)",
		},
		{
			name: "no settings", facts: bootstrap.Facts{Files: without("/var/lib/stado/agent.cue")}, state: bootstrap.AgentStopped, found: "no agent runs",
			says: "host a1 has no /var/lib/stado/agent.cue",
		},
		{
			name: "no root", facts: bootstrap.Facts{UID: 1000, Login: "ops", Files: files}, state: bootstrap.AgentStopped, found: "no agent runs",
			says: "host a1 lets us in as ops, who may not install a service",
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			if state, found := tc.facts.State(); state != tc.state || found != tc.found {
				t.Errorf("found %s, %q", state, found)
			}
			step, err := w.Recover(tc.facts, tc.anew)
			if tc.says != "" {
				if err == nil || !strings.Contains(err.Error(), tc.says) {
					t.Errorf("error is %v, want %q", err, tc.says)
				}
				return
			}
			var got []string
			if step != nil {
				got = says([]bootstrap.Step{*step})
			}
			if err != nil || strings.Join(got, "") != tc.want {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// What is to be run for a place below a directory names that directory: without it the advice would install into /.
func TestRecoverBelowARoot(t *testing.T) {
	t.Parallel()
	_, err := bootstrap.Wanted{Host: "a1", Root: "/srv/box"}.Recover(bootstrap.Facts{}, false)
	if want := "host a1 has no /srv/box/usr/local/bin/stado (run: stado host bootstrap a1 --root /srv/box --init none)"; err == nil || err.Error() != want {
		t.Errorf("%v, want %s", err, want)
	}
}

func TestReboot(t *testing.T) {
	t.Parallel()
	if s, err := (bootstrap.Facts{Boot: "x", Systemd: true}).Reboot("a1"); err != nil || !slices.Equal(s.Words[len(s.Words)-2:], []string{"systemctl", "reboot"}) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := (bootstrap.Facts{Boot: "x"}).Reboot("a1"); err != nil || s.Words[len(s.Words)-1] != "reboot" {
		t.Errorf("%+v, %v", s, err)
	}
	for says, f := range map[string]bootstrap.Facts{
		"host a1 lets us in as ops, who may not start it anew": {UID: 1000, Login: "ops", Boot: "x"},
		"host a1 does not say since when it runs":              {},
	} {
		if _, err := f.Reboot("a1"); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("error is %v, want %q", err, says)
		}
	}
}
