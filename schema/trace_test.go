package schema

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
)

// traced is a registry in which values come from everywhere: their own file, another file, a template, a pattern, the schema.
func traced() []File {
	return withBase([]File{
		{"shared.cue", []byte(`package fleet

_resolver: {
	api_bind:          "127.0.0.1:7700"
	refresh_seconds:   _interval
	max_stale_seconds: 600
	...
}
_interval: 30
registry: service_directory: services: [string]: check: rise: 5
`)},
		{"hosts/a.cue", []byte(`package fleet

registry: hosts: a: {
	ssh:  "ops@a"
	zone: "z1"
	service_resolver: _resolver & {
		adapters: [{service: "web", consumer: "c", bind: "127.0.0.1:1"}]
	}
}
`)},
		{"services/web.cue", []byte(`package fleet

registry: service_directory: services: web: {
	active_hosts: ["a"]
	endpoints: a: url: "http://127.0.0.1:2"
	consumers: c: {}
	check: kind: "tcp"
}
`)},
	})
}

// say is a trace in lines.
func (t Trace) say() string {
	var b strings.Builder
	for _, group := range []struct {
		word string
		list []Contribution
	}{{"set", t.SetBy}, {"must", t.Constraints}} {
		for _, c := range group.list {
			where := fmt.Sprintf("%s:%d:%d", c.File, c.Line, c.Column)
			if file, schema := strings.CutPrefix(c.File, VendorDir()+"/"); schema && c.Line > 0 {
				where = file // whose lines move with every field that is added
			}
			fmt.Fprintf(&b, "%s %s %s", group.word, where, c.Text)
			if c.In != "" {
				b.WriteString(" in " + c.In)
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

func TestTraceField(t *testing.T) {
	for path, want := range map[string]struct{ value, says string }{
		"hosts.a.zone": {`"z1"`, `
set hosts/a.cue:5:8 "z1"
must host.cue #Label in #Host
must words.cue =~_label in #Label
must words.cue "^[A-Za-z0-9]([A-Za-z0-9._/-]{0,62}[A-Za-z0-9])?$" in _label`},
		"registry.hosts.a.service_resolver.refresh_seconds": {`30`, `
set hosts/a.cue:6:2 _resolver & {…}
set shared.cue:5:21 _interval in _resolver
set shared.cue:9:12 30 in _interval
must resolver.cue int & >=1 & <=31536000 in #ServiceResolver`},
		"service_directory.services.web.check.rise": {`5`, `
set shared.cue:10:63 5
must service.cue *2 | (int & >=1 & <=100) | error("rise is a whole number from 1 to 100") in #Check`},
		"service_directory.services.web.check.fall": {`3`, `
must service.cue *3 | (int & >=1 & <=100) | error("fall is a whole number from 1 to 100") in #Check`},
		"service_directory.generation": {`42`, `
set generation.cue:3:42 42
must directory.cue int & >=1 & <=9223372036854775807 in #ServiceDirectory`},
		"hosts.a.user": {``, `
must host.cue #Account in #Host
must words.cue =~"^[A-Za-z_][A-Za-z0-9_.-]{0,31}$" in #Account`},
		"hosts.a.service_resolver.adapters.0.bind": {`"127.0.0.1:1"`, `
set hosts/a.cue:7:52 "127.0.0.1:1"
must resolver.cue #Bind | error("bind \(bind) is not a listener address (write 127.0.0.1:PORT or unix:///absolute/path)") in #Adapter
must words.cue =~"^((localhost|[0-9]{1,3}(\\.[0-9]{1,3}){3}|\\[[0-9A-Fa-f:.]+\\]):[1-9][0-9]{0,4}|unix:///[^\\x00-\\x1f]+)$" in #Bind`},
		"service_directory.services.web.active_hosts.0": {`"a"`, `
set services/web.cue:4:17 "a"
must service.cue #Name in #Service
must words.cue =~_name in #Name
must words.cue "^[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?$" in _name`},
	} {
		got, findings := TraceField(traced(), path, Options{})
		if len(findings) > 0 {
			t.Errorf("%s: %v", path, findings)
			continue
		}
		if diff := cmp.Diff(strings.TrimPrefix(want.says, "\n")+"\n", got.say()); diff != "" {
			t.Errorf("%s: -want +got\n%s", path, diff)
		}
		if string(got.Value) != want.value || got.Problem != "" {
			t.Errorf("%s is %s (%s), want %s", path, got.Value, got.Problem, want.value)
		}
	}
}

// Files that refuse each other are what a trace is for.
func TestTraceFieldOfAConflict(t *testing.T) {
	files := append(traced(), File{"more.cue", []byte("package fleet\n\nregistry: hosts: a: zone: \"z2\"\n")})
	got, findings := TraceField(files, "hosts.a.zone", Options{})
	if len(findings) > 0 || got.Value != nil {
		t.Fatalf("%+v, %v", got, findings)
	}
	if !strings.HasPrefix(got.say(), "set hosts/a.cue:5:8 \"z1\"\nset more.cue:3:27 \"z2\"\n") {
		t.Errorf("got\n%s", got.say())
	}
	if !strings.HasPrefix(got.Problem, "hosts/a.cue:5:8: STADO-SCHEMA-007: ") || !strings.Contains(got.Problem, "more.cue:3:27") {
		t.Errorf("the problem is %s", got.Problem)
	}
}

func TestTraceFieldDocAndRetired(t *testing.T) {
	got, findings := TraceField(traced(), "hosts.a.service_resolver.adapters.0.idle_seconds", Options{})
	if len(findings) > 0 || got.Value != nil || !strings.HasPrefix(got.Retired, "'idle_seconds' is retired: ") {
		t.Errorf("%+v, %v", got, findings)
	}
	got, findings = TraceField(traced(), "hosts.a.zone", Options{})
	if len(findings) > 0 || got.Doc != "zone is the failure domain of the host" || got.Path != "hosts.a.zone" {
		t.Errorf("%+v, %v", got, findings)
	}
}

func TestTraceFieldRefusals(t *testing.T) {
	bad := File{"bad.cue", []byte("package fleet\nregistry: hosts: }\n")}
	for _, tc := range []struct {
		files      []File
		path, want string
	}{
		{traced(), "hosts.a.zome", "STADO-SCHEMA-002: unknown field `zome` (did you mean `zone`?)"},
		{traced(), "hosts.a.zone.x", "unknown field `x`"},
		{traced(), "nothing", "unknown field `nothing`"},
		{traced(), "", "has an empty label"},
		{traced(), `hosts."a`, "has an unclosed quote"},
		{append(traced(), bad), "hosts.a.zone", "bad.cue:2:18: STADO-SCHEMA-004: "},
	} {
		got, findings := TraceField(tc.files, tc.path, Options{})
		if got.SetBy != nil || len(findings) == 0 || !strings.Contains(findings[0].String(), tc.want) {
			t.Errorf("%q: %+v, %v; want %q", tc.path, got, findings, tc.want)
		}
	}
}

// A field inside a host needs no other host: what a trace costs does not grow with the fleet.
func TestTraceFieldReadsWhatItNeeds(t *testing.T) {
	files := append(traced(), File{"hosts/b.cue", []byte("package fleet\n\nregistry: hosts: b: zone: \"z\"\n")})
	const shared = "generation.cue registry.cue shared.cue"
	for path, want := range map[string]string{
		"hosts.b.zone": shared + " hosts/b.cue",
		"hosts.new":    shared,
		"service_directory.services.web.protocol": shared + " services/web.cue",
		"service_directory.generation":            shared,
		"policies.generation_mode":                shared,
		"hosts":                                   shared + " hosts/a.cue hosts/b.cue services/web.cue",
		"service_directory.services":              shared + " hosts/a.cue hosts/b.cue services/web.cue",
		"service_directory":                       shared + " hosts/a.cue hosts/b.cue services/web.cue",
	} {
		c := newCompiler(Options{})
		labels, err := fleet.SplitFieldPath(path)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, s := range c.plan(c.parse(c.gateFiles(files))).about(labels) {
			got = append(got, s.path)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s reads %s", path, strings.Join(got, " "))
		}
	}
	if got, findings := TraceField(files, "hosts", Options{}); len(findings) > 0 || len(got.SetBy) != 2 {
		t.Errorf("all hosts: %+v, %v", got.SetBy, findings)
	}
}
