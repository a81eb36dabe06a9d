package remote_test

import (
	"errors"
	"net"
	"strconv"
	"syscall"
	"testing"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

// A server that was killed is gone at once, and starts again at its address at once: what tests of dead authorities stand on.
func TestKilledServer(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	for range 3 {
		c, err := remote.Dial(t.Context(), options(d.Host))
		if err != nil {
			t.Fatal(err)
		}
		d.Kill()
		if _, err := net.Dial("tcp", net.JoinHostPort(d.Name, strconv.Itoa(d.Port))); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("it still listens: %v", err)
		}
		if _, err := c.Exec(t.Context(), "true"); err == nil {
			t.Error("its session still answers")
		}
		c.Close()
		d.Restart(t)
	}
}
