// Package config finds an agent's state directory and reads agent.cue, the settings that are needed before any registry is known.
package config

import (
	_ "embed"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	cueerrors "cuelang.org/go/cue/errors"
)

// File is the name of the settings file in the state directory.
const File = "agent.cue"

// DefaultRefresh is the interval between two reads of the authority until a registry declares the host's own.
const DefaultRefresh = 30 * time.Second

// DefaultBranch is the branch that is the registry when nothing else is said.
const DefaultBranch = "main"

// DefaultDrain is how long relays in flight may go on when the agent stops.
const DefaultDrain = 10 * time.Second

// LeastMemoryMiB is the least data limit with which the evaluation child can start at all.
const LeastMemoryMiB = 128

//go:embed agent.cue
var schema string

// Agent is the settings of one agent. The zero value of a field means that it was not set.
type Agent struct {
	Repository     string
	Branch         string
	Mirrors        []Mirror
	CAFile         string
	CredentialFile string
	Identity       string
	KnownHosts     string
	SSHKeepalive   SSHKeepalive
	Host           string
	Refresh        time.Duration
	Drain          time.Duration
	Webhook        Webhook
	Evaluation     Evaluation
}

// Mirror is a copy of the repository. An empty Branch or CAFile is that of the repository; an empty CredentialFile is none.
type Mirror struct {
	Repository     string `json:"repository"`
	Branch         string `json:"branch"`
	CAFile         string `json:"ca_file"`
	CredentialFile string `json:"credential_file"`
}

// Webhook is where a forge may say that the registry has news; the zero value listens nowhere.
type Webhook struct {
	Bind       string `json:"bind"`
	SecretFile string `json:"secret_file"`
}

// SSHKeepalive finds ssh connections that have died without a word; the zero value asks nothing, and one field without the other is refused
// by whoever uses the settings.
type SSHKeepalive struct {
	Seconds  int `json:"seconds"`   // between two questions
	CountMax int `json:"count_max"` // so many without an answer end the connection
}

// Evaluation limits the child process that fetches, reads and evaluates a registry; zero fields keep the program's defaults.
type Evaluation struct {
	MemoryMiB   int `json:"memory_mib"`
	CPUSeconds  int `json:"cpu_seconds"`
	WallSeconds int `json:"wall_seconds"`
}

type document struct {
	Repository string       `json:"repository"`
	Branch     string       `json:"branch"`
	Mirrors    []Mirror     `json:"mirrors"`
	CAFile     string       `json:"ca_file"`
	Credential string       `json:"credential_file"`
	Identity   string       `json:"identity"`
	KnownHosts string       `json:"known_hosts"`
	Keepalive  SSHKeepalive `json:"ssh_keepalive"`
	Host       string       `json:"host"`
	Refresh    string       `json:"refresh"`
	Drain      string       `json:"drain"`
	Webhook    Webhook      `json:"webhook"`
	Evaluation Evaluation   `json:"evaluation"`
}

// Load reads agent.cue of a state directory. A missing file yields the zero settings; a bad one is refused whole, naming file:line.
func Load(home string) (Agent, error) {
	path := filepath.Join(home, File)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return Agent{}, nil
	}
	if err != nil {
		return Agent{}, err
	}
	ctx := cuecontext.New()
	def := ctx.CompileString(schema).LookupPath(cue.ParsePath("#Agent"))
	value := def.Unify(ctx.CompileBytes(data, cue.Filename(path)))
	if err := value.Validate(cue.Concrete(true)); err != nil {
		return Agent{}, refuse(path, err)
	}
	var d document
	if err := value.Decode(&d); err != nil {
		return Agent{}, refuse(path, err)
	}
	return d.settings(path)
}

func (d document) settings(path string) (Agent, error) {
	a := Agent{
		Repository: d.Repository, Branch: d.Branch, Mirrors: d.Mirrors, CAFile: d.CAFile, CredentialFile: d.Credential,
		Identity: d.Identity, KnownHosts: d.KnownHosts, SSHKeepalive: d.Keepalive, Host: d.Host, Webhook: d.Webhook, Evaluation: d.Evaluation,
	}
	for field, dst := range map[string]struct {
		word string
		to   *time.Duration
	}{"refresh": {d.Refresh, &a.Refresh}, "drain": {d.Drain, &a.Drain}} {
		if dst.word == "" {
			continue
		}
		v, err := time.ParseDuration(dst.word)
		if err != nil || v <= 0 {
			return Agent{}, fmt.Errorf("%s: %s is %q, which is not a duration above zero (write 30s)", path, field, dst.word)
		}
		*dst.to = v
	}
	return a, nil
}

// refuse names the user's line of every complaint.
func refuse(path string, err error) error {
	var all []error
	for _, e := range cueerrors.Errors(err) {
		format, args := e.Msg()
		where := path
		for _, p := range cueerrors.Positions(e) {
			if p.Filename() == path {
				where = fmt.Sprintf("%s:%d:%d", path, p.Line(), p.Column())
				break
			}
		}
		field := strings.TrimPrefix(strings.Join(e.Path(), "."), "#Agent.")
		if field != "" {
			field += ": "
		}
		all = append(all, fmt.Errorf("%s: %s%s", where, field, fmt.Sprintf(format, args...)))
	}
	return fmt.Errorf("cannot use agent.cue: %w (the fields are those of `stado agent run --help`)", errors.Join(all...))
}

// DefaultHome is where an agent keeps its state: $STADO_HOME, else /var/lib/stado for root and ~/.stado for everybody else.
func DefaultHome() (string, error) {
	if h := os.Getenv("STADO_HOME"); h != "" {
		return filepath.Abs(h)
	}
	if os.Geteuid() == 0 {
		return systemHome, nil
	}
	return userHome()
}

// systemHome is the state directory of a root agent.
const systemHome = "/var/lib/stado"

func userHome() (string, error) {
	h, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("cannot find a state directory: %w (set STADO_HOME or give --home)", err)
	}
	return filepath.Join(h, ".stado"), nil
}

// FindHome is where a client looks for a running agent's documents: the first of $STADO_HOME, ~/.stado and /var/lib/stado that holds the
// file named; when none does, the one an agent started now would use. With $STADO_HOME set nothing else is looked at.
func FindHome(published string) (string, error) {
	def, err := DefaultHome()
	if err != nil || os.Getenv("STADO_HOME") != "" {
		return def, err
	}
	user, err := userHome()
	if err != nil {
		user = def
	}
	for _, dir := range []string{user, systemHome} {
		if _, err := os.Stat(filepath.Join(dir, published)); err == nil {
			return dir, nil
		}
	}
	return def, nil
}

// MakeHome makes a state directory that is not there. Every program of the host may look into it, whatever the umask: the documents that
// are not for everybody have their own modes. The mode of a directory that exists is its owner's business.
func MakeHome(home string) error {
	err := os.Mkdir(home, 0o755)
	if errors.Is(err, os.ErrNotExist) {
		if err = os.MkdirAll(filepath.Dir(home), 0o755); err == nil {
			err = os.Mkdir(home, 0o755)
		}
	}
	switch info, statErr := os.Stat(home); {
	case errors.Is(err, os.ErrExist) && statErr == nil && info.IsDir():
		return nil
	case errors.Is(err, os.ErrExist) && statErr == nil:
		return fmt.Errorf("cannot use %s as the state directory: it is a file (name a directory with --home)", home)
	case err != nil:
		return fmt.Errorf("cannot make the state directory: %w", err)
	}
	return os.Chmod(home, 0o755)
}
