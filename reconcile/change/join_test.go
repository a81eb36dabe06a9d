package change

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// split makes two histories: main keeps what is given here, and the branch theirs gets what is given there. It gives their join.
func (r repo) split(here, there map[string]string) Join {
	r.t.Helper()
	commit := func(files map[string]string) {
		for name, text := range files {
			if text == "" {
				r.git("rm", "-q", name)
				continue
			}
			r.write(name, text)
		}
		r.git("add", "-A")
		r.git("commit", "-q", "-m", "on")
	}
	base := r.git("rev-parse", "HEAD")
	r.git("checkout", "-q", "-b", "theirs")
	commit(there)
	theirs := r.git("rev-parse", "HEAD")
	r.git("checkout", "-q", "main")
	commit(here)
	return Join{Commit: theirs, Base: base, Parent: true, Contents: true}
}

func generation(n string) string {
	return strings.Replace(files["generation.cue"], "41", n, 1)
}

// Two histories become one: what each has changed is in it, and both heads are its parents.
func TestJoin(t *testing.T) {
	r := newRepo(t, "", map[string]string{"README.md": "one\n", "gone.txt": "x\n"})
	j := r.split(
		map[string]string{"generation.cue": generation("42"), "hosts/a1.cue": "package fleet\n\nregistry: hosts: a1: zone: \"w\"\n"},
		map[string]string{
			"generation.cue": generation("43"), "hosts/a3.cue": "package fleet\n\nregistry: hosts: a3: {}\n", "shared.cue": "package fleet\n\n_zone: \"z\"\n",
			"README.md": "two\n", "gone.txt": "",
		})
	ours := r.git("rev-parse", "HEAD")
	out, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t), Join: &j}, func(d *Draft) error {
		d.Subject = Subject{Kind: "heal", Summary: "join"}
		return d.Put(44, "service_directory", "generation")
	})
	if err != nil {
		t.Fatal(err)
	}
	if got := r.git("log", "-1", "--format=%P"); got != ours+" "+j.Commit {
		t.Errorf("its parents are %s", got)
	}
	if d := cmp.Diff([]string{"README.md", "generation.cue", "gone.txt", "hosts/a3.cue", "shared.cue"}, out.Files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	for name, want := range map[string]string{
		"generation.cue": "generation: 44", "hosts/a1.cue": `zone: "w"`, "hosts/a3.cue": "hosts: a3", "shared.cue": `_zone: "z"`, "README.md": "two",
	} {
		if got := r.read(name); !strings.Contains(got, want) {
			t.Errorf("%s says\n%s", name, got)
		}
	}
	if out.Generation != 44 || r.git("status", "--porcelain") != "" {
		t.Errorf("%+v\n%s", out, r.git("status", "--porcelain"))
	}
}

// Without Contents the join is of the histories alone; what the other one changed is a change on top of it.
func TestJoinApart(t *testing.T) {
	r := newRepo(t, "", nil)
	j := r.split(map[string]string{"generation.cue": generation("42")}, map[string]string{"generation.cue": generation("42"), "shared.cue": "package fleet\n\n_zone: \"z\"\n"})
	both := j
	both.Contents = false
	o := Options{Dir: r.dir, Evaluator: evaluator(t), Join: &both}
	joined, err := Apply(t.Context(), o, func(d *Draft) error { return d.Put(43, "service_directory", "generation") })
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]string{"generation.cue"}, joined.Files); d != "" {
		t.Errorf("files (-want +got):\n%s", d)
	}
	j.Parent = false
	o.Join = &j
	rest, err := Apply(t.Context(), o, func(*Draft) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if got := r.git("log", "-1", "--format=%P"); got != joined.Commit || rest.Generation != 44 || !strings.Contains(r.read("shared.cue"), `"z"`) {
		t.Errorf("its parents are %s, %+v", got, rest)
	}
	if again, err := Apply(t.Context(), o, func(*Draft) error { return nil }); err != nil || again.Changed {
		t.Errorf("once more: %+v, %v", again, err)
	}
}

// What both histories changed, each in its way, is for a person.
func TestJoinRefused(t *testing.T) {
	zone := func(s string) string { return "package fleet\n\n_zone: \"" + s + "\"\n" }
	for name, c := range map[string]struct {
		here, there map[string]string
		says        string
	}{
		"a file changed twice":               {map[string]string{"shared.cue": zone("v")}, map[string]string{"shared.cue": zone("w")}, "both histories have changed shared.cue"},
		"a file changed here and gone there": {map[string]string{"hosts/a2.cue": files["hosts/a2.cue"] + "\n"}, map[string]string{"hosts/a2.cue": ""}, "both histories have changed hosts/a2.cue"},
		"a file made twice":                  {map[string]string{"more.cue": zone("y")}, map[string]string{"more.cue": zone("y") + "\n"}, "both histories have changed more.cue"},
		"together no registry": {
			map[string]string{"services/wiki.cue": strings.ReplaceAll(files["services/wiki.cue"], `["a1"]`, `["a2"]`)},
			map[string]string{"hosts/a2.cue": ""},
			"the result would be refused",
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRepo(t, "", nil)
			c.here["generation.cue"], c.there["generation.cue"] = generation("42"), generation("42")
			j := r.split(c.here, c.there)
			before := r.state()
			_, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t), Join: &j}, func(d *Draft) error { return d.Put(43, "service_directory", "generation") })
			var refused *RefusedError
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("%v", err)
			}
			if d := cmp.Diff(before, r.state()); d != "" {
				t.Errorf("the refusal changed the repository (-before +after):\n%s", d)
			}
		})
	}
}
