package fleet

import (
	"strings"
	"testing"
)

func TestDestinationParse(t *testing.T) {
	for _, tc := range []struct {
		in   Destination
		want SSHTarget
	}{
		{"ops@a1.example.net", SSHTarget{"ops", "a1.example.net", 22}},
		{"a1", SSHTarget{"", "a1", 22}},
		{"ops@10.0.0.7", SSHTarget{"ops", "10.0.0.7", 22}},
		{"ops@[2001:db8::7]", SSHTarget{"ops", "2001:db8::7", 22}},
		{"ops@2001:db8::7", SSHTarget{"ops", "2001:db8::7", 22}},
		{"ops@[a1.example.net]:2222", SSHTarget{"ops", "a1.example.net", 2222}},
		{"ops@[2001:db8::7]:65535", SSHTarget{"ops", "2001:db8::7", 65535}},
		{"[a1]:1", SSHTarget{"", "a1", 1}},
	} {
		got, err := tc.in.Parse()
		if err != nil || got != tc.want {
			t.Errorf("Parse(%q) = %+v, %v; want %+v", tc.in, got, err, tc.want)
		}
	}
}

func TestDestinationRefusals(t *testing.T) {
	for in, want := range map[Destination]string{
		"ops@[a1]:0":       `SSH destination ops@[a1]:0 names port "0", which is not a port`,
		"ops@[a1]:65536":   `SSH destination ops@[a1]:65536 names port "65536", which is not a port`,
		"ops@[a1]:ssh":     `SSH destination ops@[a1]:ssh names port "ssh", which is not a port`,
		"ops@[a1]:":        `SSH destination ops@[a1]: names port "", which is not a port`,
		"ops@[a1]:022":     `SSH destination ops@[a1]:022 names port "022", which is not a port`,
		"ops@a1:22":        "names a port without brackets",
		"ops@[a1]22":       "after its bracket",
		"ops@[a1":          "unbalanced bracket",
		"ops@":             "must include a host",
		"@a1":              "no valid user",
		"":                 "unsafe SSH destination in registry",
		"[-oProxyCommand]": "names a host that starts with a dash",
		"ops@[-x]:22":      "names a host that starts with a dash",
		"ops@-x":           "names a host that starts with a dash",
		"-oProxyCommand=":  "unsafe SSH destination in registry",
		"ops@a1;reboot":    "unsafe SSH destination in registry",
		"ops@a1 b":         "unsafe SSH destination in registry",
	} {
		if _, err := in.Parse(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse(%q) says %v; want %q", in, err, want)
		}
	}
}

// FuzzDestination: whatever parses is safe on a command line, and writing it back in the bracketed form means the same.
func FuzzDestination(f *testing.F) {
	for _, s := range []string{"ops@a1", "ops@[a1]:22", "[::1]:2222", "-x", "a@b@c", "ops@[a1]:99999", "::1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := Destination(s).Parse()
		if err != nil {
			return
		}
		if got.Host == "" || strings.HasPrefix(got.User+got.Host, "-") || got.Port < 1 || got.Port > 65535 {
			t.Fatalf("Parse(%q) accepted %+v", s, got)
		}
		if strings.ContainsAny(s, " \t\n;|&$'\"`\\") {
			t.Fatalf("Parse(%q) accepted a shell word", s)
		}
	})
}
