package source

import (
	"compress/zlib"
	"crypto/sha1"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// bombs are small inputs that CUE evaluates for ever or until memory is gone.
func bombs() map[string]string {
	var doubling strings.Builder
	doubling.WriteString("_x0: \"0123456789\"\n")
	for i := range 10 {
		doubling.WriteString(fmt.Sprintf("_x%d: \"%s\"\n", i+1, strings.Repeat(fmt.Sprintf(`\(_x%d)`, i), 10)))
	}
	var comprehension strings.Builder
	comprehension.WriteString("_l0: [1,2,3,4,5,6,7,8,9,10]\n")
	for i := range 8 {
		comprehension.WriteString(fmt.Sprintf("_l%d: [for a in _l0 for b in _l%d {b}]\n", i+1, i))
	}
	return map[string]string{
		"nested loops":        "_l: [1,2,3,4,5,6,7,8,9,10]\n_x: [for a in _l for b in _l for c in _l for d in _l for e in _l for f in _l for g in _l {a}]\n",
		"string doubling":     doubling.String(),
		"list of lists":       comprehension.String(),
		"ranges":              "import \"list\"\n\n_r: list.Range(0, 300, 1)\n_x: [for a in _r for b in _r for c in _r {a}]\n",
		"range without a end": "import \"list\"\n\n_x: list.Range(0, 100000000, 1)\n",
	}
}

// Each bomb is a verdict on its commit; the agent's own memory stays, and the verdict is not worked out again.
func TestBombs(t *testing.T) {
	for name, text := range bombs() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRepo(t)
			held := r.commit("1", registry(1))
			r.commit("bomb", map[string]string{"services/bomb.cue": "package fleet\n\n" + text})
			g := poller(t, r.dir)
			g.opts.Runner.Limits = sandbox.Limits{Data: 192 << 20, CPU: 2 * time.Second, Wall: 10 * time.Minute}
			before := ownMemory(t)
			o := poll(t, g, held)
			if len(o.Steps) != 1 || o.Steps[0].Document != nil || !o.Steps[0].Findings.Refuses() || o.Steps[0].Subject != "bomb" {
				t.Fatalf("%+v", o)
			}
			f := o.Steps[0].Findings[0]
			if f.Rule == RuleLimit {
				if !strings.HasPrefix(f.Message, "evaluation limit: ") || !strings.Contains(f.Message, "in phase ") || !strings.HasSuffix(f.File, ".cue") {
					t.Errorf("%s", f)
				}
			}
			t.Logf("%s", f)
			if grown := ownMemory(t) - before; grown > 64<<20 {
				t.Errorf("the parent grew by %d MiB", grown>>20)
			}
			if f.Rule == RuleLimit && strings.Contains(f.Message, ": time") {
				return // judged again next time
			}
			if o := poll(t, g, held); !o.Unchanged {
				t.Error("the bomb was evaluated again")
			}
			r.commit("defused", map[string]string{"services/bomb.cue": "package fleet\n", "generation.cue": generation(2)["generation.cue"]})
			if o := poll(t, g, held); len(o.Steps) != 2 || o.Steps[1].Findings.Refuses() {
				t.Errorf("%+v", o)
			}
		})
	}
}

// Text that doubles becomes the message of a finding: it reaches the parent short, as one line, and beside it nothing of the child.
func TestLongFindings(t *testing.T) { // not parallel: it measures this process
	var text strings.Builder
	text.WriteString("package fleet\n\n_x0: \"" + strings.Repeat(`boom\nstado resolver serves generation 99\u001b[2J`, 2) + "\"\n")
	for i := range 5 {
		text.WriteString(fmt.Sprintf("_x%d: \"%s\"\n", i+1, strings.Repeat(fmt.Sprintf(`\(_x%d)`, i), 10)))
	}
	r := newRepo(t)
	held := r.commit("1", registry(1))
	r.commit("bomb", map[string]string{"hosts/zz.cue": text.String() + "registry: hosts: zz: user: error(_x5)\n"})
	g := poller(t, r.dir)
	before := ownMemory(t)
	o := poll(t, g, held)
	if len(o.Steps) != 1 || len(o.Steps[0].Findings) == 0 {
		t.Fatalf("%+v", o)
	}
	for _, f := range o.Steps[0].Findings {
		if s := f.String(); !strings.Contains(s, "boom stado resolver serves generation 99[2J") || strings.ContainsAny(s, "\n\x1b") || len(s) > 4*fleet.MaxText {
			t.Errorf("%d bytes: %.200q", len(s), s)
		}
	}
	if grown := ownMemory(t) - before; grown > 32<<20 {
		t.Errorf("the parent grew by %d MiB", grown>>20)
	}
}

// A parent takes nothing of a child's reply as it comes.
func TestReplyIsCleaned(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("\x1b[2Jx\n", 1<<20)
	r := compileReply{Author: long, Subject: long, Trailers: map[string]string{"Stado-Kind": long}}
	for i := range 2 * schema.MaxFindings {
		r.Findings = append(r.Findings, fleet.Finding{Rule: long, File: long, Line: i, Message: long})
	}
	r.clean()
	raw, err := json.Marshal(r)
	if err != nil || len(raw) > 5*schema.MaxFindings*fleet.MaxText || len(r.Findings) != schema.MaxFindings+1 {
		t.Errorf("%d bytes with %d findings, %v", len(raw), len(r.Findings), err)
	}
	if s := r.Author + r.Subject + r.Trailers["Stado-Kind"] + r.Findings[0].String(); strings.ContainsAny(s, "\n\x1b") {
		t.Errorf("%.200q", s)
	}
}

// A pack of half a megabyte holds one blob of 512 MiB of zeros. Whether fetching it needs more than the child has depends on how
// the remote packed it; either the pack or the file is refused, by name and with the limit. The parent notices nothing but the verdict,
// and does not work it out again.
func TestHugeBlobInASmallPack(t *testing.T) { // not parallel: it measures this process
	r := newRepo(t)
	held := r.commit("1", registry(1))
	r.git("config", "core.compression", "1")
	r.git("update-index", "--add", "--cacheinfo", "100644,"+r.zeros(512<<20)+",zeros")
	r.git("commit", "-q", "-m", "zeros")
	bombTip := r.git("rev-parse", "HEAD")
	address, ca := server(t, backend(t, r))
	for _, tc := range []struct {
		remote string
		packed bool // the remote copies a small pack, as a forge does; else its git inflates the blob first, and that under our limits
	}{
		{"file://" + r.dir, false},
		{address, true},
	} {
		t.Run(strings.SplitN(tc.remote, ":", 2)[0], func(t *testing.T) {
			g := poller(t, tc.remote)
			g.opts.Remote.CAFile = ca
			if tc.packed {
				r.git("-c", "core.bigFileThreshold=1m", "repack", "-adq") // streamed, not held in memory
			}
			r.git("update-ref", "refs/heads/main", held)
			poll(t, g, "")
			r.git("update-ref", "refs/heads/main", bombTip)
			before := ownMemory(t)
			o, err := g.Poll(t.Context(), Anchor{Commit: held})
			if grown := ownMemory(t) - before; grown > 64<<20 {
				t.Errorf("the parent grew by %d MiB", grown>>20)
			}
			again, errAgain := g.Poll(t.Context(), Anchor{Commit: held})
			var limit *sandbox.LimitError
			switch {
			case errors.As(err, &limit):
				want := "pack: evaluation limit: " + limit.Limit + ", " + limit.Bound + ", in phase pack, last begun " + tc.remote
				if kindOf(err) != KindLimit || !strings.Contains(err.Error(), want) || errAgain != err { // the very same: nothing was worked out again
					t.Errorf("got %v, again %v; want %s", err, errAgain, want)
				}
			case err != nil || !tc.packed:
				t.Errorf("error is %v", err)
			default:
				want := "zeros: STADO-GIT-004: evaluation limit: file size, 1 MiB, in phase read: the file has 512 MiB"
				if len(o.Steps) != 1 || len(o.Steps[0].Findings) != 1 || !strings.HasPrefix(o.Steps[0].Findings[0].String(), want) || !again.Unchanged {
					t.Errorf("got %+v, want %s", o, want)
				}
			}
			r.git("update-ref", "refs/heads/main", held)
			if o := poll(t, g, held); !o.Descends || o.Tip != held {
				t.Errorf("%+v", o)
			}
		})
	}
}

// zeros puts a blob of so many zeros into the repository and gives its id. git add would take five times the processor time.
func (r repo) zeros(size int64) string {
	r.t.Helper()
	objects := filepath.Join(r.dir, ".git", "objects")
	sum := sha1.New()
	from, err1 := os.Open("/dev/zero")
	to, err2 := os.Create(filepath.Join(objects, "zeros"))
	z, err3 := zlib.NewWriterLevel(to, zlib.BestSpeed)
	if err := errors.Join(err1, err2, err3); err != nil {
		r.t.Fatal(err)
	}
	text := io.MultiWriter(sum, z)
	_, err1 = fmt.Fprintf(text, "blob %d\x00", size)
	_, err2 = io.CopyN(text, from, size)
	id := hex.EncodeToString(sum.Sum(nil))
	loose := filepath.Join(objects, id[:2], id[2:])
	if err := errors.Join(err1, err2, z.Close(), to.Close(), from.Close(), os.MkdirAll(filepath.Dir(loose), 0o755), os.Rename(to.Name(), loose)); err != nil {
		r.t.Fatal(err)
	}
	return id
}

// ownMemory is this process's resident memory, in bytes.
func ownMemory(t *testing.T) int {
	t.Helper()
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "VmRSS:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	if err != nil {
		t.Fatal(err)
	}
	return kib << 10
}
