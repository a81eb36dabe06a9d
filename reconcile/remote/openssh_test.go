package remote_test

import (
	"strings"
	"testing"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/remote"
)

func TestOpenSSH(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		in   fleet.Destination
		want string
		says string
	}{
		{in: "ops@a1.example.net", want: "ops@a1.example.net"},
		{in: "a1", want: "a1"},
		{in: "[a1]", want: "a1"},
		{in: "ops@[2001:db8::7]", want: "ops@2001:db8::7"},
		{in: "ops@2001:db8::7", want: "ops@2001:db8::7"},
		{in: "ops@[a1]:2222", want: "ssh://ops@a1:2222"},
		{in: "ops@[a1]:22", want: "ssh://ops@a1:22"},
		{in: "[a1]:2222", want: "ssh://a1:2222"},
		{in: "ops@[2001:db8::7]:2222", want: "ssh://ops@[2001:db8::7]:2222"},
		{in: "ops@[a1]:ssh", says: `SSH destination ops@[a1]:ssh names port "ssh", which is not a port`},
		{in: "-oProxyCommand=x", says: "unsafe SSH destination"},
		{in: "[-oProxyCommand]", says: "names a host that starts with a dash"},
	} {
		got, err := remote.OpenSSH(tc.in)
		switch {
		case tc.says != "":
			if err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("%s: error is %v, want %q", tc.in, err, tc.says)
			}
		case err != nil || got != tc.want:
			t.Errorf("%s: got %q, %v, want %q", tc.in, got, err, tc.want)
		}
	}
}
