package bootstrap

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

//go:embed account.sh
var accountScript string

// Account is a login of a host, and keys that may use it, or no longer.
type Account struct {
	Host, User string
	Keys       []string // each as type and base64, as in authorized_keys
	Remove     bool     // the keys are taken away
}

// userPattern is what useradd takes as a name.
var userPattern = regexp.MustCompile(`^[a-z_][a-z0-9_-]*$`)

// Check refuses what cannot be wanted.
func (a Account) Check() error {
	if !userPattern.MatchString(a.User) || len(a.User) > 32 {
		return errors.New(sayBadUser(a.User))
	}
	return nil
}

// Look is what asks a host for its [AccountFacts].
func (a Account) Look() (words []string, stdin string) {
	return []string{"/bin/sh", "-s", "--", a.User}, accountScript
}

// AccountFacts is what a host says of a login.
type AccountFacts struct {
	System, Machine string
	UID             int    // of who is let in
	Login           string // who is let in
	Missing         []string
	Exists          bool
	Shell, Home     string
	Locked          bool     // sshd lets nobody in, whatever the key
	Keys            []string // the lines of authorized_keys
}

// ParseAccountFacts reads the answer to [Account.Look].
func ParseAccountFacts(answer string) (AccountFacts, error) {
	f := AccountFacts{UID: -1}
	err := eachFact(answer, f.take)
	if err == nil && (f.UID < 0 || f.Login == "" || f.Exists && !path.IsAbs(f.Home)) {
		err = errors.New(sayBadAnswer(answer))
	}
	if err != nil {
		return AccountFacts{}, err
	}
	return f, nil
}

func (f *AccountFacts) take(name, value string) (err error) {
	switch name {
	case "system":
		f.System = value
	case "machine":
		f.Machine = value
	case "uid":
		f.UID, err = strconv.Atoi(value)
	case "login":
		f.Login = value
	case "missing":
		f.Missing = append(f.Missing, value)
	case "account":
		f.Exists = true
	case "shell":
		f.Shell = value
	case "home-directory":
		f.Home = value
	case "locked":
		f.Locked = true
	case "key":
		f.Keys = append(f.Keys, value)
	}
	return err
}

// options are those of a key that is added: relays and commands, and nothing else that a session can have.
const options = "restrict,port-forwarding"

// Plan is what is to be done on a host that says this of the login; no step at all when it is as wanted.
func (a Account) Plan(f AccountFacts) ([]Step, error) {
	switch {
	case f.System != "Linux":
		return nil, errors.New(sayNotLinux(a.Host, f.System))
	case len(f.Missing) > 0:
		return nil, errors.New(sayMissing(a.Host, f.Missing))
	case f.UID != 0 && f.Login != a.User:
		return nil, errors.New(sayForeignAccount(a.Host, f.Login, a.User))
	case !f.Exists && a.Remove:
		return nil, nil
	}
	var out []Step
	change := func(action, detail string, words ...string) {
		out = append(out, Step{Action: action, Path: a.User, Detail: detail, Words: append(words, a.User)})
	}
	if !f.Exists {
		f.Home, f.Shell = path.Join("/home", a.User), "/bin/sh"
		change("account", "with a shell and without a password", "useradd", "--create-home", "--home-dir", f.Home, "--shell", f.Shell, "--password", "*")
	}
	if !a.Remove && f.UID == 0 {
		if base := path.Base(f.Shell); base == "nologin" || base == "false" {
			change("shell", f.Shell+" to /bin/sh", "usermod", "--shell", "/bin/sh")
		}
		if f.Locked {
			change("unlock", "it stays without a password", "usermod", "--password", "*")
		}
	}
	if s, needed := a.write(f); needed {
		out = append(out, s)
	}
	return out, nil
}

// write is the change of authorized_keys. A line that is there already keeps its options.
func (a Account) write(f AccountFacts) (Step, bool) {
	lines := slices.Clone(f.Keys)
	for _, key := range a.Keys {
		holds := func(line string) bool { return holdsKey(line, key) }
		switch {
		case a.Remove:
			lines = slices.DeleteFunc(lines, holds)
		case !slices.ContainsFunc(lines, holds):
			lines = append(lines, options+" "+key)
		}
	}
	if slices.Equal(lines, f.Keys) {
		return Step{}, false
	}
	var text strings.Builder
	for _, line := range lines {
		text.WriteString(line + "\n")
	}
	sum := sha256.Sum256([]byte(text.String()))
	s := Step{
		Action: "keys", Path: path.Join(f.Home, ".ssh/authorized_keys"), SHA256: hex.EncodeToString(sum[:]), Stdin: []byte(text.String()),
		Detail: sayKeys(len(lines)-len(f.Keys), len(lines)),
	}
	const script = `[ -d "${1%/*}" ] || mkdir -m 0700 "${1%/*}"; ` + put
	arguments := []string{"stado-put", s.Path, "0600", a.User + ":", s.SHA256}
	if f.Login == a.User {
		s.Words = append([]string{"/bin/sh", "-c", script}, arguments...)
	} else { // by the account itself: it could have made a link of anything in its home
		s.Words = append([]string{"su", "-s", "/bin/sh", "-c", script, a.User}, arguments...)
	}
	return s, true
}

// holdsKey reports that a line of authorized_keys lets a key in, with whatever options.
func holdsKey(line, key string) bool {
	line = strings.TrimSpace(line)
	return !strings.HasPrefix(line, "#") && (line == key || strings.HasPrefix(line, key+" ") || strings.Contains(line, " "+key+" ") || strings.HasSuffix(line, " "+key))
}
