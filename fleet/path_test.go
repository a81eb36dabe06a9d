package fleet

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever the labels are, the path that is made of them leads back to them.
func TestFieldPathRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		labels := rapid.SliceOfN(rapid.OneOf(rapid.StringMatching(`[a-z0-9."\\-]{0,6}`), rapid.String()), 1, 5).Draw(t, "labels")
		for i := range labels {
			labels[i] = strings.ToValidUTF8(labels[i], "?")
		}
		p := FieldPath(labels...)
		got, err := SplitFieldPath(p)
		if err != nil || !slices.Equal(got, labels) {
			t.Fatalf("%q is %s, which splits to %q, %v", labels, p, got, err)
		}
	})
}

func TestSplitFieldPathRefusals(t *testing.T) {
	for path, want := range map[string]string{
		"":             "has an empty label",
		"hosts.":       "has an empty label",
		"hosts..ssh":   "has an empty label",
		`hosts."a`:     "has an unclosed quote",
		`hosts."a"ssh`: "behind a quoted label",
		`hosts.a"b`:    "has a quote inside the label",
	} {
		if got, err := SplitFieldPath(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("SplitFieldPath(%q) = %q, %v; want %q", path, got, err, want)
		}
	}
}
