package adapter

import (
	"errors"
	"fmt"
	"syscall"
	"time"

	"stado.internal/stado/agent/resolver/route"
	"stado.internal/stado/agent/resolver/wait"
	"stado.internal/stado/agent/status"
	"stado.internal/stado/fleet"
)

// Lines about one wait. After the prefix with service and consumer each takes the endpoint, the host and the number of waits listed.
const (
	linePrefix    = "stado resolver service=%s consumer=%s "
	lineOpening   = "opening channel to %s on %q; %d open(s) now waiting for an answer"
	lineSent      = "request sent to %s on %q; %d open(s) now waiting for an answer"
	lineAnswered  = "request to %s on %q answered; %d open(s) still waiting"
	lineEnded     = "request to %s on %q ended before an answer; %d open(s) still waiting"
	lineAbandoned = "request to %s on %s abandoned by its client before an answer; the channel is closed; %d open(s) still waiting"
)

// lineChannel takes service, consumer, endpoint, open or refused, milliseconds and the number of waits listed.
const lineChannel = linePrefix + "channel to %s answered %s after %d ms; %d open(s) still waiting"

func word(err error) string {
	if err == nil {
		return "open"
	}
	return "refused"
}

func sayRoute(way *route.Route, c *route.Candidate) string {
	return fmt.Sprintf("stado resolver service=%s consumer=%s generation=%d destination=%s", way.Service, way.Consumer, way.Generation, c.Host)
}

func sayRefused(k route.Key, endpoint, sentence string) string {
	if endpoint == "" {
		endpoint = "none"
	}
	return fmt.Sprintf("stado resolver service=%s consumer=%s endpoint=%s refused connection: %s", k.Service, k.Consumer, endpoint, sentence)
}

func sayRejected(k route.Key, endpoint string, cause error, took time.Duration) string {
	return fmt.Sprintf("stado resolver adapter service=%s consumer=%s rejected connection: proxy to %s failed: %v after %d ms",
		k.Service, k.Consumer, endpoint, cause, took.Milliseconds())
}

func sayHeld(held []status.Wait, interval time.Duration, now time.Time) string {
	return fmt.Sprintf("not relayed: this host's resolver holds %d connection(s) on that adapter unanswered longer than the %ds refresh interval it declares, "+
		"so a request sent now would stand behind them: %s", len(held), seconds(interval), status.SayWait(held[0], now))
}

func sayWithdrawn(k route.Key) string {
	return fmt.Sprintf("the registry no longer declares an adapter for service %s and consumer %s at %s on this host", k.Service, k.Consumer, k.Bind)
}

// SayNoSessions is the refusal of a candidate on another host without [RelaysOptions.DialHost].
func SayNoSessions(service fleet.ServiceName, host fleet.HostName) string {
	return fmt.Sprintf("service %s is active on %s, and this resolver opens no session to another host: call it on %s, or make it active on this host", service, host, host)
}

func sayUnreachable(service fleet.ServiceName, c *route.Candidate, cause error) string {
	return fmt.Sprintf("service %s cannot be reached at %s on %s: %v (see that it runs there and listens on that address)", service, c.Address, c.Host, cause)
}

func sayNoDiagnosis(cause error) string {
	return fmt.Sprintf("cannot open the kernel's socket diagnosis (%v): a client that closes before its answer is told from one that half-closes only by its reset; "+
		"a sandboxed unit needs AF_NETLINK in RestrictAddressFamilies", cause)
}

func sayAcceptFailed(bind string, cause error) error {
	return fmt.Errorf("%s accept failed: %w; the resolver listens again shortly", bind, cause)
}

func sayShed(bind string, cause error, interval time.Duration) string {
	return fmt.Sprintf("this host's resolver ran out of file descriptors accepting on %s (%s): this connection had waited longer than the %ds refresh interval "+
		"for an answer that never came, so the resolver ended it to accept again", bind, sayErrno(cause), seconds(interval))
}

func sayShedWait(w *wait.Wait) string {
	p := w.Published()
	return fmt.Sprintf("stado resolver adapter service=%s consumer=%s shed the wait of %s to %s on %s held since %s",
		p.Service, p.Consumer, p.Client, p.Endpoint, p.ActiveHost, p.Since.Format(time.RFC3339Nano))
}

func sayShedCount(k route.Key, shed int, cause error, opening int) string {
	return fmt.Sprintf("stado resolver adapter service=%s consumer=%s shed %d held relay(s) after %s and accepts again; %d held wait(s) stand on channels still opening",
		k.Service, k.Consumer, shed, sayErrno(cause), opening)
}

func sayOrphansEnded(k route.Key, ended int, cause error) string {
	return fmt.Sprintf("stado resolver adapter service=%s consumer=%s ended %d upload(s) that stand although their clients are gone, after %s, and accepts again",
		k.Service, k.Consumer, ended, sayErrno(cause))
}

// ErrExhausted marks the end of a listener that ran out of descriptors with nothing to shed.
var ErrExhausted = errors.New("out of descriptors")

type exhaustion struct{ sentence string }

func (e exhaustion) Error() string        { return e.sentence }
func (e exhaustion) Is(target error) bool { return target == ErrExhausted }

func sayNothingShed(bind string, cause error, interval time.Duration, opening int) error {
	return exhaustion{fmt.Sprintf("%s accept failed: %s; no relay older than the %ds refresh interval could be shed (%d held wait(s) stand on channels still opening), "+
		"so the descriptors are held by something this adapter cannot free", bind, sayErrno(cause), seconds(interval), opening)}
}

// sayErrno words the error as operators know it.
func sayErrno(err error) string {
	switch {
	case errors.Is(err, syscall.EMFILE):
		return "Too many open files"
	case errors.Is(err, syscall.ENFILE):
		return "Too many open files in system"
	}
	return plain(err).Error()
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
