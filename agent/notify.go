package agent

import (
	"context"
	"fmt"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"

	"stado.internal/stado/agent/status"
)

// notify tells systemd that the agent runs, what it is doing, and that it is alive. Without systemd every call is a no-op.
//
// READY is sent at once: an agent that waits for its first registry is doing its work, and a start timeout that killed it would turn an
// unreachable authority into a restart loop.
func (a *Agent) notify(ctx context.Context) error {
	interval, err := daemon.SdWatchdogEnabled(false)
	if err != nil || interval == 0 {
		interval = 10 * time.Second
	}
	a.tell(daemon.SdNotifyReady)
	tick := time.NewTicker(interval / 2)
	defer tick.Stop()
	last := ""
	for {
		if line := statusLine(a.state.Load()); line != last {
			a.tell("STATUS=" + line)
			last = line
		}
		select {
		case <-ctx.Done():
			a.tell(daemon.SdNotifyStopping)
			return nil
		case <-tick.C:
			a.tell(daemon.SdNotifyWatchdog)
		}
	}
}

func (a *Agent) tell(state string) {
	if _, err := daemon.SdNotify(false, state); err != nil {
		a.opt.Log.Debug("systemd was not told " + state + ": " + err.Error())
	}
}

func statusLine(s status.Resolver) string {
	line := fmt.Sprintf("%s at generation %d", s.State, s.Generation)
	if s.Reason != "" {
		line += ": " + s.Reason
	}
	return line
}
