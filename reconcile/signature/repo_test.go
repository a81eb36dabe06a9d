package signature_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/packet"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/signature"
)

// now is when the tests judge, long after the commits' own time.
var now = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

// repo is a repository with commits made by the installed git, which signs them with the installed ssh-keygen.
type repo struct {
	t   testing.TB
	dir string
	env []string
}

func newRepo(t testing.TB) *repo {
	t.Helper()
	r := &repo{t: t, dir: t.TempDir()}
	r.env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "HOME="+r.dir, "LC_ALL=C",
		"GIT_AUTHOR_NAME=Ada", "GIT_AUTHOR_EMAIL=ada@example.net", "GIT_COMMITTER_NAME=Ada", "GIT_COMMITTER_EMAIL=ada@example.net",
		"GIT_COMMITTER_DATE=2026-05-01T10:00:00Z")
	r.git("init", "-q", "-b", "main")
	return r
}

func (r *repo) run(stdin []byte, name string, args ...string) string {
	r.t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = r.dir, r.env, bytes.NewReader(stdin)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		r.t.Fatalf("%s %v: %v\n%s", name, args, err, stderr.String())
	}
	return strings.TrimSuffix(string(out), "\n")
}

func (r *repo) git(args ...string) string { r.t.Helper(); return r.run(nil, "git", args...) }

// key makes an SSH key with ssh-keygen and gives its public half.
func (r *repo) key(name string, options ...string) string {
	r.t.Helper()
	file := filepath.Join(r.t.TempDir(), name)
	r.run(nil, "ssh-keygen", append([]string{"-q", "-N", "", "-C", name, "-f", file}, options...)...)
	public, err := os.ReadFile(file + ".pub")
	if err != nil {
		r.t.Fatal(err)
	}
	r.git("config", "stado."+name, file)
	return strings.TrimSpace(string(public))
}

// commit changes files and commits them: unsigned when signer is empty, else with the key of that name.
func (r *repo) commit(signer string, files ...string) string {
	r.t.Helper()
	for _, name := range files {
		full := filepath.Join(r.dir, name)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			r.t.Fatal(err)
		}
		old, _ := os.ReadFile(full)
		if err := os.WriteFile(full, append(old, "x\n"...), 0o600); err != nil {
			r.t.Fatal(err)
		}
	}
	r.git("add", "-A")
	args := []string{"commit", "-q", "--allow-empty", "-m", "change " + strings.Join(files, " ")}
	if signer != "" {
		args = append([]string{"-c", "gpg.format=ssh", "-c", "user.signingkey=" + r.git("config", "stado."+signer)}, append(args, "-S")...)
	}
	r.git(args...)
	return r.git("rev-parse", "HEAD")
}

// object stores a commit object as it is given.
func (r *repo) object(raw []byte) string {
	r.t.Helper()
	return r.run(raw, "git", "hash-object", "-t", "commit", "-w", "--literally", "--stdin")
}

func (r *repo) raw(id string) []byte {
	r.t.Helper()
	return []byte(r.git("cat-file", "commit", id) + "\n")
}

// sign puts a signature of the commit's own bytes into it.
func (r *repo) sign(id string, sign func(payload []byte) []byte) string {
	r.t.Helper()
	payload := r.raw(id)
	return r.object(withSignature(payload, sign(payload)))
}

func withSignature(payload, armored []byte) []byte {
	head, message, _ := bytes.Cut(payload, []byte("\n\n"))
	value := strings.ReplaceAll(strings.TrimSuffix(string(armored), "\n"), "\n", "\n ")
	return fmt.Appendf(nil, "%s\ngpgsig %s\n\n%s", head, value, message)
}

// sshSign signs with ssh-keygen for a purpose.
func (r *repo) sshSign(key, purpose string, options ...string) func([]byte) []byte {
	return func(payload []byte) []byte {
		args := append([]string{"-Y", "sign", "-q", "-f", r.git("config", "stado."+key), "-n", purpose}, options...)
		return []byte(r.run(payload, "ssh-keygen", args...) + "\n")
	}
}

// Commit implements signature.History.
func (r *repo) Commit(_ context.Context, id string) ([]byte, error) { return r.raw(id), nil }

// Changes implements signature.History.
func (r *repo) Changes(_ context.Context, from, to string, see func(string) bool) error {
	for name := range strings.SplitSeq(strings.TrimSuffix(r.git("diff-tree", "-r", "-z", "--name-only", "--no-renames", from, to), "\x00"), "\x00") {
		if name != "" && !see(name) {
			break
		}
	}
	return nil
}

// vouch asks about all commits from since to the branch.
func (r *repo) vouch(trust fleet.Trust, since string) (int, *signature.Refusal) {
	r.t.Helper()
	chain := strings.Fields(r.git("rev-list", "--first-parent", "--reverse", since+"..HEAD"))
	n, refusal, err := signature.Vouch(r.t.Context(), r, trust, since, chain, len(chain), now)
	if err != nil {
		r.t.Fatal(err)
	}
	if (n == len(chain)) != (refusal == nil) {
		r.t.Fatalf("%d of %d commits, and %+v", n, len(chain), refusal)
	}
	return n, refusal
}

// one is a trust of one signer.
func one(mode fleet.TrustMode, key string, scope ...string) fleet.Trust {
	return fleet.Trust{Mode: mode, Signers: map[fleet.SignerName]fleet.Signer{"ada": {Key: key, Scope: scope}}}
}

// pgpKey makes a PGP key and gives its public half.
func pgpKey(t testing.TB, config *packet.Config) (*openpgp.Entity, string) {
	t.Helper()
	entity, err := openpgp.NewEntity("Ada", "", "ada@example.net", config)
	if err != nil {
		t.Fatal(err)
	}
	return entity, armored(t, openpgp.PublicKeyType, entity.Serialize)
}

func armored(t testing.TB, kind string, serialize func(io.Writer) error) string {
	t.Helper()
	var out bytes.Buffer
	w, err := armor.Encode(&out, kind, nil)
	if err == nil {
		err = serialize(w)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.String() + "\n"
}
