package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"stado.internal/stado/agent/config"
	"stado.internal/stado/reconcile/remote"
)

func TestOverSSH(t *testing.T) {
	t.Setenv("SSH_AUTH_SOCK", "/run/agent")
	for name, tc := range map[string]struct {
		settings config.Agent
		want     remote.Options
	}{
		"nothing is declared": {config.Agent{}, remote.Options{Identity: remote.Identity{Agent: "/run/agent"}}},
		"all that can be": {
			config.Agent{Identity: "/etc/stado/key", KnownHosts: "/etc/stado/known_hosts", SSHKeepalive: config.SSHKeepalive{Seconds: 15, CountMax: 4}},
			remote.Options{
				Identity: remote.Identity{File: "/etc/stado/key", Agent: "/run/agent"}, KnownHosts: []string{"/etc/stado/known_hosts"},
				Keepalive: remote.Keepalive{Interval: 15 * time.Second, Misses: 4},
			},
		},
	} {
		if diff := cmp.Diff(tc.want, OverSSH(tc.settings), cmpopts.IgnoreFields(remote.Options{}, "Dial", "Log")); diff != "" {
			t.Errorf("%s: -want +got\n%s", name, diff)
		}
	}
}
