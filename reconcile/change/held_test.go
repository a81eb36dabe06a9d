package change

import (
	"errors"
	"maps"
	"strings"
	"testing"
)

// TestNamesThatCUESkips holds hosts and services, whatever they are called, in files that are read.
func TestNamesThatCUESkips(t *testing.T) {
	r := newRepo(t, "", nil)
	e := evaluator(t)
	const text = `{"service_directory": {"generation": 42, "services": {"pay_tool": {"active_hosts": ["web_test"], ` +
		`"endpoints": {"web_test": {"url": "http://127.0.0.1:8080"}}, "consumers": {"people": {}}}}}, "hosts": {"a1": {"zone": "x"}, "web_test": {}}}`
	document, err := ReadDocument(t.Context(), e, "d.json", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if len(document.Registry.Hosts) != 2 || len(document.Registry.Directory.Services) != 1 {
		t.Errorf("the document says %s", document.Bytes)
	}
	out, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: e}, func(d *Draft) error { return d.Replace(document) })
	if err != nil {
		t.Fatal(err)
	}
	if v, err := e.Commit(t.Context(), r.dir, out.Commit); err != nil || v.Digest != document.Digest {
		t.Errorf("the commit says %s, %v", v.Document, err)
	}
	if _, err := ReadDocument(t.Context(), e, "d.json", []byte(`{"service_directory": {"generation": 1}, "x_test": {}}`)); err == nil || !strings.Contains(err.Error(), "unknown field `x_test`") {
		t.Errorf("a key that no registry has: %v", err)
	}
}

// TestNotHeld refuses an edit that the result does not show.
func TestNotHeld(t *testing.T) {
	r := newRepo(t, "", nil)
	before := r.state()
	_, err := Apply(t.Context(), Options{Dir: r.dir, Evaluator: evaluator(t)}, func(d *Draft) error {
		return d.Create("hosts/b_test.cue", map[string]string{"zone": "x"}, "hosts", "b_test")
	})
	var refused *RefusedError
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), "would not say hosts.b_test as it was written") {
		t.Errorf("got %v", err)
	}
	if !maps.Equal(before, r.state()) {
		t.Error("something was written")
	}
}
