// Package bootstrap decides what brings a host to a running agent, from nothing or after a failure: it compares what is wanted with what the
// host says of itself, and gives the steps between the two, each as a line for the host's shell with its input. It carries nothing out.
package bootstrap

import (
	"bytes"
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"strings"
)

// Init is what starts the agent on a host.
type Init string

// The values of [Init].
const (
	InitSystemd Init = "systemd" // the unit, enabled and started
	InitNone    Init = "none"    // the agent is started by hand, and left to itself
)

// DefaultAccount runs the agent where the whole host is meant.
const DefaultAccount = "stado"

// mark stands in every text that we wrote, and so may replace.
const mark = "Written by `stado host bootstrap`, which replaces it when it runs again."

// Wanted is what a host is to have.
type Wanted struct {
	Host   string
	Root   string // "/", or a directory of the host below which everything is put
	Init   Init
	Binary []byte // the stado program
	Unit   string // the unit as for [DefaultAccount] and "/"
	Config Config
	// Replace allows to replace a unit and settings that somebody else wrote.
	Replace bool
}

// Config is the first configuration of the agent. Files are contents, stored beside it; nil means none.
type Config struct {
	Repository, Branch                       string
	Mirrors                                  []string
	Identity, KnownHosts, CAFile, Credential []byte
}

// rootPattern is what can stand in a shell line, a unit and CUE without quotes.
var rootPattern = regexp.MustCompile(`^(/|(/[A-Za-z0-9_.+-]+)+)$`)

// CheckRoot refuses a root that cannot be one.
func (w Wanted) CheckRoot() error {
	if !rootPattern.MatchString(w.Root) || path.Clean(w.Root) != w.Root {
		return errors.New(sayBadRoot(w.Root))
	}
	return nil
}

// Check refuses what cannot be wanted.
func (w Wanted) Check() error {
	if err := w.CheckRoot(); err != nil {
		return err
	}
	if w.Init != InitSystemd && w.Init != InitNone {
		return errors.New(sayBadInit(w.Init))
	}
	_, err := machineOf(w.Binary)
	return err
}

func (w Wanted) below(p string) string { return path.Join(w.Root, p) }

// Home is the state directory on the host.
func (w Wanted) Home() string { return w.below("/var/lib/stado") }

// Program is the program's file on the host.
func (w Wanted) Program() string { return w.below("/usr/local/bin/stado") }

func (w Wanted) settingsFile() string { return path.Join(w.Home(), "agent.cue") }

func (w Wanted) unitFile() string { return w.below("/etc/systemd/system/stado.service") }

// account runs the agent; empty means whoever logs in.
func (w Wanted) account() string {
	if w.Root == "/" {
		return DefaultAccount
	}
	return ""
}

// file is one file that the host is to have.
type file struct {
	path   string
	data   []byte
	mode   fs.FileMode
	ours   bool // a text that somebody else may have written
	system bool // it belongs to who logs in, not to the account of the agent
}

func (f file) sum() string {
	sum := sha256.Sum256(f.data)
	return hex.EncodeToString(sum[:])
}

// files are in the order in which they are written: nothing names what is not there.
func (w Wanted) files(h Facts) ([]file, error) {
	out := []file{{path: w.Program(), data: w.Binary, mode: 0o755, system: true}}
	for _, f := range w.Config.files() {
		out = append(out, file{path: path.Join(w.Home(), f.name), data: f.data, mode: f.mode})
	}
	settings, err := w.settings()
	if err != nil {
		return nil, err
	}
	out = append(out, file{path: w.settingsFile(), data: settings, mode: 0o600, ours: true})
	if w.Init == InitSystemd {
		unit, err := w.unit(h)
		if err != nil {
			return nil, err
		}
		out = append(out, file{path: w.unitFile(), data: unit, mode: 0o644, ours: true, system: true})
	}
	return out, nil
}

type configFile struct {
	field, name string
	data        []byte
	mode        fs.FileMode
}

func (c Config) files() []configFile {
	var out []configFile
	for _, f := range []configFile{
		{"identity", "identity", c.Identity, 0o600},
		{"known_hosts", "known_hosts", c.KnownHosts, 0o644},
		{"ca_file", "ca.pem", c.CAFile, 0o644},
		{"credential_file", "credential", c.Credential, 0o600},
	} {
		if f.data != nil {
			out = append(out, f)
		}
	}
	return out
}

// settings is agent.cue.
func (w Wanted) settings() ([]byte, error) {
	fields := [][2]string{{"repository", w.Config.Repository}, {"branch", w.Config.Branch}, {"host", w.Host}}
	for _, f := range w.Config.files() {
		fields = append(fields, [2]string{f.field, path.Join(w.Home(), f.name)})
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "// %s\n\n", mark)
	for _, f := range fields {
		if f[1] == "" {
			continue
		}
		value, err := json.Marshal(f[1]) // which is a string of CUE as well
		if err != nil {
			return nil, err
		}
		fmt.Fprintf(&out, "%s: %s\n", f[0], value)
	}
	if len(w.Config.Mirrors) > 0 {
		out.WriteString("mirrors: [\n")
		for _, url := range w.Config.Mirrors {
			value, err := json.Marshal(url)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "\t{repository: %s},\n", value)
		}
		out.WriteString("]\n")
	}
	return out.Bytes(), nil
}

// unit is the unit for this root and account, without the words on how to install it by hand.
func (w Wanted) unit(h Facts) ([]byte, error) {
	_, body, ok := strings.Cut(w.Unit, "\n[Unit]\n")
	if !ok {
		return nil, errors.New("the unit has no [Unit]")
	}
	lines := [][2]string{}
	if w.Root != "/" {
		lines = [][2]string{
			{"User=" + DefaultAccount, "User=" + h.Login},
			{"Group=" + DefaultAccount, "Group=" + h.Group},
			{"Environment=STADO_HOME=/var/lib/stado", "Environment=STADO_HOME=" + w.Home()},
			{"ExecStart=/usr/local/bin/stado agent run", "ExecStart=" + w.Program() + " agent run"},
			{"StateDirectory=stado\nStateDirectoryMode=0755", "ReadWritePaths=" + w.Home()},
		}
	}
	for _, l := range lines {
		if strings.Count(body, "\n"+l[0]+"\n") != 1 {
			return nil, fmt.Errorf("the unit has no line %q", l[0])
		}
		body = strings.Replace(body, "\n"+l[0]+"\n", "\n"+l[1]+"\n", 1)
	}
	return []byte("# " + mark + "\n\n[Unit]\n" + body), nil
}

// machineOf is the processor that a program is for, as debug/elf names it.
func machineOf(program []byte) (elf.Machine, error) {
	f, err := elf.NewFile(bytes.NewReader(program))
	if err != nil {
		return 0, errors.New(sayNoProgram(err))
	}
	return f.Machine, nil
}

// machines are the processors by the names that hosts give them.
func machines() map[string]elf.Machine {
	return map[string]elf.Machine{
		"x86_64": elf.EM_X86_64, "aarch64": elf.EM_AARCH64, "arm64": elf.EM_AARCH64, "armv7l": elf.EM_ARM, "armv6l": elf.EM_ARM,
		"i686": elf.EM_386, "i386": elf.EM_386, "riscv64": elf.EM_RISCV, "ppc64le": elf.EM_PPC64, "s390x": elf.EM_S390, "loongarch64": elf.EM_LOONGARCH,
	}
}
