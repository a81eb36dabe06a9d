package fleet

import (
	"strings"
	"testing"
)

func TestParseEndpoint(t *testing.T) {
	for raw, want := range map[string]Endpoint{
		"http://127.0.0.1:8080":        {Scheme: "http", Network: "tcp", Address: "127.0.0.1:8080"},
		"http://localhost:8080/":       {Scheme: "http", Network: "tcp", Address: "127.0.0.1:8080"},
		"https://[::1]:443":            {Scheme: "https", Network: "tcp", Address: "[::1]:443"},
		"tcp://10.1.2.3:5432":          {Scheme: "tcp", Network: "tcp", Address: "10.1.2.3:5432"},
		"http://[::ffff:127.0.0.1]:80": {Scheme: "http", Network: "tcp", Address: "127.0.0.1:80"},
		"unix:///run/app/app.sock":     {Scheme: "unix", Network: "unix", Address: "/run/app/app.sock"},
	} {
		want.URL = raw
		if got, err := ParseEndpoint(raw); err != nil || got != want {
			t.Errorf("ParseEndpoint(%q) = %+v, %v; want %+v", raw, got, err, want)
		}
	}
}

func TestParseEndpointRefusals(t *testing.T) {
	for raw, want := range map[string]string{
		"http://a1.example.net:80":            "neither an IP literal nor localhost",
		"http://127.0.0.1":                    "names no port",
		"http://127.0.0.1:0":                  `names port "0", which is not a port`,
		"http://127.0.0.1:70000":              "which is not a port",
		"http://127.0.0.1:80/x":               "has a path",
		"http://127.0.0.1:80/?a=b":            "has a query or a fragment",
		"http://127.0.0.1:80/?":               "has a query or a fragment",
		"http://127.0.0.1:80#f":               "has a query or a fragment",
		"ftp://127.0.0.1:21":                  "has no known scheme",
		"127.0.0.1:80":                        "is not a URL",
		"unix://run/app.sock":                 "does not name a clean absolute path",
		"unix:///run/../app.sock":             "does not name a clean absolute path",
		"http://[fe80::1%25eth0]:80":          "neither an IP literal nor localhost",
		"unix:///" + strings.Repeat("a", 120): "names a path of 121 bytes, and a socket's may have 107",
	} {
		if _, err := ParseEndpoint(raw); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("ParseEndpoint(%q) says %v; want %q", raw, err, want)
		}
	}
}

// A refusal is printed, logged and published, so it must not carry what it refuses here.
func TestParseEndpointHidesCredentials(t *testing.T) {
	_, err := ParseEndpoint("http://ops:hunter2@127.0.0.1:80")
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "carries credentials") {
		t.Fatalf("got %v", err)
	}
}

func TestParseBind(t *testing.T) {
	for raw, loopback := range map[string]bool{
		"127.0.0.1:7101":       true,
		"localhost:7101":       true,
		"[::1]:7101":           true,
		"unix:///run/a.sock":   true,
		"0.0.0.0:7101":         false,
		"[::]:7101":            false,
		"192.0.2.4:7101":       false,
		"[::ffff:127.0.0.1]:1": true,
	} {
		b, err := ParseBind(raw)
		if err != nil || b.Loopback() != loopback {
			t.Errorf("ParseBind(%q) = %+v, %v; want loopback %v", raw, b, err, loopback)
		}
	}
	for _, raw := range []string{"", "7101", "127.0.0.1", "127.0.0.1:0", "a1:7101", "unix://x", "127.0.0.1:07"} {
		if b, err := ParseBind(raw); err == nil {
			t.Errorf("ParseBind(%q) = %+v, want a refusal", raw, b)
		}
	}
}

func FuzzParseEndpoint(f *testing.F) {
	for _, s := range []string{"http://127.0.0.1:80", "unix:///a", "tcp://[::1]:1", "http://u:p@127.0.0.1:80", "%", "http://[::1]:80#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		e, err := ParseEndpoint(s)
		if err == nil && (e.Address == "" || (e.Network != "tcp" && e.Network != "unix")) {
			t.Fatalf("ParseEndpoint(%q) = %+v", s, e)
		}
	})
}

func FuzzParseBind(f *testing.F) {
	for _, s := range []string{"127.0.0.1:80", "unix:///a", "[::1]:1", "localhost:1", ":80"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := ParseBind(s)
		if err != nil {
			return
		}
		again, err := ParseBind(map[string]string{"tcp": "", "unix": "unix://"}[b.Network] + b.Address)
		if err != nil || again != b {
			t.Fatalf("ParseBind(%q) = %+v, but its own address parses as %+v, %v", s, b, again, err)
		}
	})
}
