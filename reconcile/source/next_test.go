package source

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
)

// TestNextMeansWhole changes a registry commit by commit, and polls each twice: with what is known of the held commit, and without, so that
// everything is evaluated. Both say the same of every commit, and what can be told from the change alone is.
func TestNextMeansWhole(t *testing.T) {
	t.Parallel()
	r := newRepo(t)
	files := registry(1)
	alpha := files["hosts/alpha.cue"]
	files["hosts/east/beta.cue"] = strings.ReplaceAll(alpha, "alpha", "beta")
	held := r.commit("first", files)
	g, whole := poller(t, r.dir), poller(t, r.dir)
	poll(t, g, "")
	poll(t, whole, "")
	n := 1
	for _, c := range []struct {
		what  string
		next  bool              // told from the change alone
		files map[string]string // "" removes a file
		do    func()
	}{
		{what: "generation", next: true},
		{what: "host", next: true, files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, "7701", "7801", 1)}},
		{what: "two hosts, moved down", next: true, files: map[string]string{
			"hosts/alpha.cue":     "// a comment\n" + alpha,
			"hosts/east/beta.cue": "\n\n" + strings.ReplaceAll(strings.Replace(alpha, "5\n", "6\n", 1), "alpha", "beta"),
		}},
		{what: "unknown service", files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, `"wiki"`, `"wikis"`, 1)}},
		{what: "repaired", files: map[string]string{"hosts/alpha.cue": alpha}},
		{what: "after the repair", next: true, files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, "60", "70", 1)}},
		{what: "host name", files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, `["alpha`, `["beta`, 1)}},
		{what: "bind clash", files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, "7701", "7700", 1)}},
		{what: "unknown field", files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, "refresh_seconds", "refresh", 1)}},
		{what: "line ends", files: map[string]string{"hosts/alpha.cue": strings.ReplaceAll(alpha, "\n", "\r\n")}},
		{what: "another's host", files: map[string]string{"hosts/alpha.cue": strings.ReplaceAll(alpha, "hosts: alpha", "hosts: beta")}},
		{what: "outside", files: map[string]string{"hosts/alpha.cue": alpha + "\nother: 1\n"}},
		{what: "reads the generation", files: map[string]string{
			"hosts/alpha.cue": strings.Replace(alpha, "service_resolver", "labels: g: \"\\(registry.service_directory.generation)\"\n\tservice_resolver", 1),
		}},
		{what: "read generation changes"},
		{what: "data again", files: map[string]string{"hosts/alpha.cue": alpha}},
		{what: "service", files: map[string]string{"services/wiki.cue": strings.Replace(files["services/wiki.cue"], "8080", "8081", 1)}},
		{what: "another file", files: map[string]string{"README.md": "changed\n"}},
		{what: "rule for all hosts", files: map[string]string{"rule.cue": "package fleet\n\nregistry: hosts: [string]: zone: *\"z1\" | string\n"}},
		{what: "host under the rule", files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, "60", "80", 1)}},
		{what: "no rule", files: map[string]string{"rule.cue": ""}},
		{what: "shared text", files: map[string]string{"presence.cue": "package fleet\n\nregistry: trust: mode: [\"none\", registry.service_directory.generation][0]\n"}},
		{what: "generation under shared text"},
		{what: "no shared text", files: map[string]string{"presence.cue": ""}},
		{what: "second file of a host", files: map[string]string{"hosts/west/alpha.cue": "package fleet\n\nregistry: hosts: alpha: zone: \"z1\"\n"}},
		{what: "one of two files", files: map[string]string{"hosts/west/alpha.cue": "package fleet\n\nregistry: hosts: alpha: zone: \"z2\"\n"}},
		{what: "one file again", files: map[string]string{"hosts/west/alpha.cue": ""}},
		{what: "mode", do: func() { r.git("update-index", "--chmod=+x", "hosts/alpha.cue") }},
		{what: "own policies", files: map[string]string{"policies/zones.cue": "package policies\n\nif len(next.hosts) > 9 {violations: many: \"too many\"}\n"}},
		{what: "host under policies", files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, "60", "90", 1)}},
		{what: "no policies", files: map[string]string{"policies/zones.cue": ""}},
		{what: "at the end", next: true, files: map[string]string{"hosts/alpha.cue": strings.Replace(alpha, "60", "95", 1)}},
	} {
		n++
		change := generation(n)
		maps.Copy(change, c.files)
		for file, text := range change {
			if text == "" {
				r.git("rm", "-q", file)
				delete(change, file)
			}
		}
		r.write(change)
		r.git("add", "-A")
		if c.do != nil {
			r.git("config", "core.fileMode", "false") // the work tree has no say in it
			c.do()
		}
		r.git("commit", "-q", "-m", c.what+"\n\nwords\n\nStado-Generation: "+strconv.Itoa(n))
		asked := filepath.Join(g.opts.Store+suffixResults, "results")
		if err := os.Remove(asked); err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		whole.base = nil
		got, want := poll(t, g, held), poll(t, whole, held)
		_, err := os.Stat(asked)
		last := got.Steps[len(got.Steps)-1]
		if next := os.IsNotExist(err) && len(last.Findings) == 0; next != c.next {
			t.Errorf("%s: told from the change alone: %v, want %v; %v", c.what, next, c.next, last.Findings)
		}
		if diff := cmp.Diff(decoded(t, want), decoded(t, got)); diff != "" {
			t.Errorf("%s: -whole +next\n%s", c.what, diff)
		}
		if !last.Findings.Refuses() {
			held = last.Commit
		}
	}
}

// decoded is an offer with all registries decoded from their documents, after those that are there have been compared with them.
func decoded(t *testing.T, o Offer) Offer {
	t.Helper()
	for i, s := range o.Steps {
		if s.Document == nil {
			o.Steps[i].Positions = nil // of a commit that cannot be read, as far as it was looked at
			continue
		}
		registry, err := fleet.Decode(s.Document)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(registry, s.Registry); s.Registry != nil && diff != "" {
			t.Errorf("the document and its registry: %s", diff)
		}
		o.Steps[i].Registry, o.Steps[i].Parts = registry, nil
	}
	return o
}
