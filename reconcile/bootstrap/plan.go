package bootstrap

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// Step is one change of a host: a command for its shell, and the input.
type Step struct {
	Action string `json:"action"` // account, directory, write, start or reboot
	Path   string `json:"path,omitempty"`
	SHA256 string `json:"sha256,omitempty"` // of a file that is written
	Detail string `json:"detail"`           // why, or how

	Words  []string `json:"-"`
	Stdin  []byte   `json:"-"`
	Silent bool     `json:"-"` // it prepares another one and changes nothing that anybody wants
}

// Plan is what is to be done on a host that says this of itself; no step at all when it is as wanted. The steps are carried out in their
// order, and a run that is cut off between two of them is completed by the next one.
func (w Wanted) Plan(f Facts) ([]Step, error) {
	if err := f.suits(w); err != nil {
		return nil, err
	}
	files, err := w.files(f)
	if err != nil {
		return nil, err
	}
	if foreign := f.foreign(files); len(foreign) > 0 && !w.Replace {
		return nil, errors.New(sayForeign(w.Host, foreign))
	}
	var writes []Step
	for _, want := range files {
		if s, needed := f.write(w, want); needed {
			writes = append(writes, s)
		}
	}
	start := w.starts() && (len(writes) > 0 || !f.settled(w))
	var out []Step
	if account := w.account(); account != "" && !f.Account {
		out = append(out, Step{
			Action: "account", Path: account, Detail: "a system account without a login",
			Words: []string{"useradd", "--system", "--home-dir", w.Home(), "--shell", "/usr/sbin/nologin", account},
		})
	}
	if s, needed := f.directory(w, start); needed {
		out = append(out, s)
	}
	out = append(out, writes...)
	if start {
		out = append(out, w.start(f))
	}
	return out, nil
}

// starts reports that there is something to start: systemd reads units of its own root only.
func (w Wanted) starts() bool { return w.Init == InitNone || w.Root == "/" }

// directory makes the state directory, and notes there that a start is due: it is, until it has happened.
func (f Facts) directory(w Wanted, start bool) (Step, bool) {
	const mode, script = "0755", `mkdir -p "$1" && chmod "$2" "$1" && chown "$3" "$1"`
	owner := f.owner(w, false)
	s := Step{Action: "directory", Path: w.Home(), Detail: "mode " + mode + ", owner " + owner}
	s.Silent = f.Home != nil && f.Home.Mode == 0o755 && f.Home.Owner == owner
	line := script
	if start {
		line += ` && : >"$1/.bootstrap"`
	}
	s.Words = []string{"/bin/sh", "-c", line, "stado-directory", w.Home(), mode, owner + ":"}
	return s, start || !s.Silent
}

// put writes a file that is whole, durable and right, or not at all: `put FILE MODE OWNER SHA256`.
const put = `set -eu; umask 022; mkdir -p "${1%/*}"; umask 077; tmp=$(mktemp "${1%/*}/.${1##*/}.XXXXXX"); trap "rm -f $tmp" EXIT; ` +
	`cat >"$tmp"; sum=$(sha256sum <"$tmp"); ` +
	`[ "${sum%% *}" = "$4" ] || { echo "what arrived for $1 has sha256 ${sum%% *}, not $4" >&2; exit 1; }; ` +
	`chmod "$2" "$tmp"; chown "$3" "$tmp"; sync "$tmp" 2>/dev/null || sync; mv -f "$tmp" "$1"`

func (f Facts) write(w Wanted, want file) (Step, bool) {
	sum, owner := want.sum(), f.owner(w, want.system)
	have, there := f.Files[want.path]
	s := Step{
		Action: "write", Path: want.path, SHA256: sum, Stdin: want.data, Detail: sayChange(have, there, Stat{SHA256: sum, Mode: want.mode, Owner: owner}),
		Words: []string{"/bin/sh", "-c", put, "stado-put", want.path, fmt.Sprintf("%04o", want.mode), owner + ":", sum},
	}
	return s, s.Detail != ""
}

func sayChange(have Stat, there bool, want Stat) string {
	if !there {
		return "new"
	}
	var out []string
	if have.SHA256 != want.SHA256 {
		out = append(out, "content")
	}
	if have.Mode != want.Mode {
		out = append(out, fmt.Sprintf("mode %04o to %04o", uint32(have.Mode&fs.ModePerm), uint32(want.Mode)))
	}
	if have.Owner != want.Owner {
		out = append(out, "owner "+have.Owner+" to "+want.Owner)
	}
	return strings.Join(out, ", ")
}

func (w Wanted) start(f Facts) Step {
	s := Step{Action: "start", Path: "stado.service", Detail: "by systemd, which also starts it with the host"}
	if w.Init == InitSystemd {
		const script = `systemctl daemon-reload && systemctl enable -q stado.service && systemctl restart stado.service && rm -f "$1/.bootstrap"`
		s.Words = []string{"/bin/sh", "-c", script, "stado-start", w.Home()}
		return s
	}
	s.Path, s.Detail = w.Program(), "left to itself; its log is "+w.Home()+"/agent.log"
	s.Words, s.Stdin = []string{"/bin/sh", "-s", "--", f.owner(w, false), w.Home(), w.Program()}, []byte(startScript)
	return s
}
