package remote_test

import (
	"sync"
	"testing"
	"time"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

// A crowd that comes at the same instant to an OpenSSH server which is configured as it is installed, so that it turns some of them away,
// is let in whole.
func TestCrowd(t *testing.T) {
	t.Parallel()
	o := options(remotetest.SSHD(t, remotetest.Config{MaxStartups: remotetest.InstalledStartups}).Host)
	o.Deadlines = patient()
	start := make(chan struct{})
	var crowd sync.WaitGroup
	for range 50 {
		crowd.Go(func() {
			c := remote.NewClient(o)
			defer c.Close()
			<-start
			s, err := c.Exec(t.Context(), "true")
			if err == nil {
				_, err = s.Wait(t.Context(), time.Minute)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	close(start)
	crowd.Wait()
}
