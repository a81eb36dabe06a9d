package bootstrap

import (
	_ "embed"
	"encoding/json"
	"errors"
	"strings"
)

//go:embed serving.sh
var servingScript string

// LookAtAgent is what asks a host for its [Facts] and what its agent says of itself. Of w only the host and the root count.
func (w Wanted) LookAtAgent() (words []string, stdin string) {
	words = []string{"/bin/sh", "-s", "--", w.account(), w.Home(), w.Program(), w.Program(), w.settingsFile(), w.unitFile()}
	const last = "fact end\n"
	return words, strings.TrimSuffix(lookScript, last) + servingScript + last
}

// AgentState is what the agent of a host is doing.
type AgentState string

// The states of an agent.
const (
	AgentServes  AgentState = "serving" // its listeners stand, whether the authority answers it or not
	AgentRuns    AgentState = "running" // it answers, and does not serve yet
	AgentSilent  AgentState = "silent"  // its process is there and does not answer
	AgentStopped AgentState = "stopped"
)

// State says what the agent does, in a word and in a sentence.
func (f Facts) State() (AgentState, string) {
	var said struct {
		Running  bool `json:"running"`
		Resolver *struct {
			State      string `json:"state"`
			Listening  bool   `json:"listening"`
			Generation uint64 `json:"generation"`
			Reason     string `json:"reason"`
		} `json:"resolver"`
	}
	err := json.Unmarshal([]byte(f.Said), &said)
	switch r := said.Resolver; {
	case err == nil && said.Running && r != nil && r.Listening:
		return AgentServes, sayRuns(r.State, r.Generation, r.Reason)
	case err == nil && said.Running && r != nil:
		return AgentRuns, sayRuns(r.State, r.Generation, r.Reason)
	case f.Agent > 0 && err == nil:
		return AgentSilent, saySilent(f.Agent, "")
	case f.Agent > 0:
		return AgentSilent, saySilent(f.Agent, f.Said)
	}
	return AgentStopped, sayStopped
}

// Recover is the step that brings the agent of a host back; nil when it serves, or runs and may yet serve and anew does not ask for more.
// Nothing that is installed changes. The agent is started by systemd where its unit is there, and else left to itself.
func (w Wanted) Recover(f Facts, anew bool) (*Step, error) {
	_, program := f.Files[w.Program()]
	_, settings := f.Files[w.settingsFile()]
	_, unit := f.Files[w.unitFile()]
	switch {
	case w.Root == "/" && f.UID != 0:
		return nil, errors.New(sayNotRoot(w.Host, f.Login))
	case !program:
		return nil, errors.New(sayNotInstalled(w, w.Program()))
	case !settings:
		return nil, errors.New(sayNotInstalled(w, w.settingsFile()))
	}
	if state, _ := f.State(); (state == AgentServes || state == AgentRuns) && !anew {
		return nil, nil
	}
	w.Init = InitNone
	if f.Systemd && unit && w.Root == "/" {
		w.Init = InitSystemd
	}
	s := w.start(f)
	return &s, nil
}

// Reboot is the step that starts the host itself anew, a moment after it has answered.
func (f Facts) Reboot(host string) (Step, error) {
	if f.UID != 0 {
		return Step{}, errors.New(sayNoReboot(host, f.Login))
	}
	if f.Boot == "" {
		return Step{}, errors.New(sayNoBoot(host))
	}
	program := "reboot"
	if f.Systemd {
		program = "systemctl reboot"
	}
	const script = `command -v "$1" >/dev/null || { echo "there is no $1" >&2; exit 1; }; ` +
		`nohup /bin/sh -c 'sleep 1; exec "$@"' stado-reboot "$@" >/dev/null 2>&1 </dev/null &`
	return Step{Action: "reboot", Detail: program, Words: append([]string{"/bin/sh", "-c", script, "stado-reboot"}, strings.Fields(program)...)}, nil
}
