package bootstrap

import (
	_ "embed"
	"errors"
	"io/fs"
	"slices"
	"strconv"
	"strings"
)

//go:embed look.sh
var lookScript string

//go:embed start.sh
var startScript string

// Look is what asks a host for its [Facts]: the words of a command, and its input.
func (w Wanted) Look() (words []string, stdin string, err error) {
	files, err := w.files(Facts{})
	if err != nil {
		return nil, "", err
	}
	words = []string{"/bin/sh", "-s", "--", w.account(), w.Home(), w.Program()}
	for _, f := range files {
		words = append(words, f.path)
	}
	return words, lookScript, nil
}

// Facts is what a host says of itself.
type Facts struct {
	System, Machine string // as uname has them
	UID             int
	Login, Group    string
	Missing         []string // programs that are needed and not there
	Account         bool     // the account of the agent is there
	Home            *Stat    // nil when there is none
	Pending         bool     // an earlier run has written files and not started the agent
	Files           map[string]Stat
	Unusable        []string // what stands where a file belongs and is none that can be read
	Agent           int      // pid of the agent that runs on the state directory; 0 for none
	Systemd         bool
	Enabled, Active bool   // of the unit
	Boot            string // changes with every start of the host; "" where the system does not say
	Said            string // by the agent's own status, as JSON; or why there is none
	Log             string // the last line that the agent has logged
}

// Stat is what is known of one file.
type Stat struct {
	SHA256 string // of a plain file's content
	Mode   fs.FileMode
	Owner  string
	Ours   bool // it says that this program wrote it
}

// ParseFacts reads the answer to [Wanted.Look]. What a login prints beside it is passed over.
func ParseFacts(answer string) (Facts, error) {
	f := Facts{UID: -1, Files: map[string]Stat{}}
	err := eachFact(answer, f.take)
	if err == nil && (f.System == "" || f.Machine == "" || f.UID < 0 || f.Login == "") {
		err = errors.New(sayBadAnswer(answer))
	}
	if err != nil {
		return Facts{}, err
	}
	return f, nil
}

// eachFact gives the facts of a complete answer.
func eachFact(answer string, take func(name, value string) error) error {
	ended := false
	for line := range strings.Lines(answer) {
		fact, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "stado-fact ")
		if !ok {
			continue
		}
		name, value, _ := strings.Cut(fact, " ")
		if name == "end" {
			ended = true
			continue
		}
		if err := take(name, value); err != nil {
			return errors.New(sayBadFact(name, value))
		}
	}
	if !ended {
		return errors.New(sayBadAnswer(answer))
	}
	return nil
}

func (f *Facts) take(name, value string) (err error) {
	switch name {
	case "system":
		f.System = value
	case "machine":
		f.Machine = value
	case "uid":
		f.UID, err = strconv.Atoi(value)
	case "login":
		f.Login = value
	case "group":
		f.Group = value
	case "missing":
		f.Missing = append(f.Missing, value)
	case "account":
		f.Account = true
	case "home":
		words := strings.Fields(value)
		var s Stat
		if s, err = parseStat(words); err == nil {
			f.Home = &s
		}
	case "pending":
		f.Pending = true
	case "file":
		err = f.takeFile(value)
	case "unusable":
		f.Unusable = append(f.Unusable, value)
	case "agent":
		f.Agent, err = strconv.Atoi(value)
	case "systemd":
		f.Systemd = true
	case "enabled":
		f.Enabled = true
	case "active":
		f.Active = true
	case "boot":
		f.Boot = value
	case "said":
		f.Said += value + "\n"
	case "log":
		f.Log = value
	}
	return err
}

var errFact = errors.New("not a fact")

// takeFile reads `SHA256 MODE OWNER ours|foreign PATH`.
func (f *Facts) takeFile(value string) error {
	words := strings.SplitN(value, " ", 5)
	if len(words) != 5 || len(words[0]) != 64 {
		return errFact
	}
	s, err := parseStat(words[1:3])
	s.SHA256, s.Ours = words[0], words[3] == "ours"
	f.Files[words[4]] = s
	return err
}

func parseStat(words []string) (Stat, error) {
	if len(words) != 2 {
		return Stat{}, errFact
	}
	mode, err := strconv.ParseUint(words[0], 8, 12)
	return Stat{Mode: fs.FileMode(mode), Owner: words[1]}, err
}

// suits refuses a host on which nothing of this can be.
func (f Facts) suits(w Wanted) error {
	machine, err := machineOf(w.Binary)
	switch known, ok := machines()[f.Machine]; {
	case err != nil:
		return err
	case f.System != "Linux":
		return errors.New(sayNotLinux(w.Host, f.System))
	case !ok || known != machine:
		return errors.New(sayForeignMachine(w.Host, f.Machine, machine))
	case len(f.Missing) > 0:
		return errors.New(sayMissing(w.Host, f.Missing))
	case len(f.Unusable) > 0:
		return errors.New(sayUnusable(w.Host, f.Unusable))
	case w.Root == "/" && f.UID != 0:
		return errors.New(sayNotRoot(w.Host, f.Login))
	case w.Root == "/" && w.Init == InitSystemd && !f.Systemd:
		return errors.New(sayNoSystemd(w.Host))
	}
	return nil
}

// owner is whom a file must belong to.
func (f Facts) owner(w Wanted, system bool) string {
	if account := w.account(); account != "" && !system {
		return account
	}
	return f.Login
}

// settled reports that the agent needs no start.
func (f Facts) settled(w Wanted) bool {
	switch {
	case w.Init == InitNone:
		return f.Agent > 0 && !f.Pending
	case w.Root != "/":
		return true
	}
	return f.Enabled && f.Active && !f.Pending
}

// foreign are the texts that somebody else wrote and that would change.
func (f Facts) foreign(files []file) []string {
	var out []string
	for _, want := range files {
		if have, there := f.Files[want.path]; there && want.ours && !have.Ours && have.SHA256 != want.sum() {
			out = append(out, want.path)
		}
	}
	return slices.Clip(out)
}
