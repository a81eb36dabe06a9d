package remote_test

import (
	"context"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/crypto/ssh"

	"stado.internal/stado/reconcile/remote"
	"stado.internal/stado/reconcile/remote/remotetest"
)

// The phases of a user of the session, as git has them.
const (
	phaseAdvertisement remote.Phase = "advertisement"
	phasePack          remote.Phase = "pack"
)

// silence is a stage at which a server stops to take part, and what becomes of a client.
type silence struct {
	name    string
	stage   remotetest.Stage
	command func(string, ssh.Channel) int
	phase   remote.Phase
	late    string
	cut     string // instead, when it hangs up
}

func silences() []silence {
	talks := func(_ string, c ssh.Channel) int {
		_, _ = io.WriteString(c, "here it is\n")
		return remotetest.Hang("", c)
	}
	return []silence{
		{name: "TCP", stage: remotetest.Accept, phase: remote.PhaseHandshake, late: "the server took the connection and sent no SSH greeting within ", cut: "closed the connection before its SSH greeting"},
		{name: "greeting", stage: remotetest.Greeting, phase: remote.PhaseHandshake, late: "the server began to speak and did not finish the key exchange within ", cut: "closed the connection in the key exchange"},
		{name: "key exchange", stage: remotetest.KeyExchange, phase: remote.PhaseHandshake, late: "did not finish the key exchange within ", cut: "closed the connection in the key exchange"},
		{name: "authentication", stage: remotetest.Authentication, phase: remote.PhaseAuthentication, late: "no answer within ", cut: "the server closed the connection"},
		{name: "channel", stage: remotetest.Channel, phase: remote.PhaseExec, late: "no answer within ", cut: "the SSH session is over"},
		{name: "exec", stage: remotetest.Exec, phase: remote.PhaseExec, late: "no answer within ", cut: "the SSH session is over"},
		{name: "advertisement", command: remotetest.Hang, phase: phaseAdvertisement, late: "no answer within "},
		{name: "pack", command: talks, phase: phasePack, late: "no answer within "},
	}
}

// converse goes as far as a reader of git goes; what follows the advertisement has a deadline of its own.
func converse(ctx context.Context, o remote.Options, advertisement, pack time.Duration) error {
	c, err := remote.Dial(ctx, o)
	if err != nil {
		return err
	}
	defer c.Close()
	s, err := c.Exec(ctx, "talk")
	if err != nil {
		return err
	}
	if err := s.Within(ctx, phaseAdvertisement, advertisement, func() error { _, err := io.ReadFull(s, make([]byte, 11)); return err }); err != nil {
		return err
	}
	return s.Within(ctx, phasePack, pack, func() error { _, err := io.ReadAll(s); return err })
}

func deadlines(d time.Duration) remote.Deadlines {
	return remote.Deadlines{Connect: d, Handshake: d, Authentication: d, Exec: d}
}

// At every stage a silent server costs its phase's time and nothing else, a hundred times over.
func TestSilentServersInMemory(t *testing.T) {
	t.Parallel()
	const deadline = 10 * time.Second
	for _, tc := range silences() {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { // which ends only when every goroutine has
				s := remotetest.Memory(t, remotetest.Config{})
				s.Behave(remotetest.Behavior{Stop: tc.stage, Command: tc.command})
				o := options(s.Host)
				o.Deadlines = deadlines(deadline)
				for range 100 {
					began := time.Now()
					err := converse(t.Context(), o, deadline, deadline)
					expect(t, err, tc.phase, remote.KindTimeout, tc.late+"10s")
					if took := time.Since(began); took != deadline {
						t.Fatalf("it took %v", took)
					}
				}
			})
		})
	}
}

// A server that hangs up is told apart from one that is silent, and the sentence has the phase.
func TestServersThatHangUp(t *testing.T) {
	t.Parallel()
	for _, tc := range silences() {
		if tc.cut == "" {
			continue
		}
		synctest.Test(t, func(t *testing.T) {
			s := remotetest.Memory(t, remotetest.Config{})
			s.Behave(remotetest.Behavior{Stop: tc.stage, Cut: true})
			e := expect(t, converse(t.Context(), options(s.Host), time.Minute, time.Minute), tc.phase, remote.KindUnreachable, tc.cut)
			if e.Stalled() {
				t.Errorf("%s: stalled", tc.name)
			}
		})
	}
}

// The same over sockets: every descriptor comes back.
func TestSilentServers(t *testing.T) { // not parallel: it counts descriptors
	const deadline = 300 * time.Millisecond
	base := descriptors(t)
	for _, tc := range silences() {
		t.Run(tc.name, func(t *testing.T) {
			s := remotetest.Listen(t, remotetest.Config{})
			s.Behave(remotetest.Behavior{Stop: tc.stage, Command: tc.command})
			o := options(s.Host)
			advertisement, pack := time.Minute, time.Minute
			o.Deadlines = patient() // only the silent phase is short: a busy machine needs time for the others
			for p, d := range map[remote.Phase]*time.Duration{
				remote.PhaseHandshake: &o.Deadlines.Handshake, remote.PhaseAuthentication: &o.Deadlines.Authentication, remote.PhaseExec: &o.Deadlines.Exec,
				phaseAdvertisement: &advertisement, phasePack: &pack,
			} {
				if p == tc.phase {
					*d = deadline
				}
			}
			began := time.Now()
			expect(t, converse(t.Context(), o, advertisement, pack), tc.phase, remote.KindTimeout, tc.late)
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
	if now := descriptors(t); now > base {
		t.Errorf("%d descriptors before, %d after", base, now)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	open, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(open)
}

// An OpenSSH server that is stopped in its tracks: the session it had costs one deadline, a new one is taken by the kernel alone.
func TestFrozenOpenSSH(t *testing.T) {
	t.Parallel()
	d := remotetest.SSHD(t, remotetest.Config{})
	o := options(d.Host)
	o.Deadlines.Exec = 10 * time.Second // of which a busy machine may need some to start a command
	c := remote.NewClient(o)
	defer c.Close()
	if out, _ := run(t, c.Exec, "echo one", ""); out != "one\n" {
		t.Fatalf("got %q", out)
	}
	d.Freeze()
	_, err := c.Exec(t.Context(), "echo two")
	expect(t, err, remote.PhaseExec, remote.KindTimeout, "no answer within 10s")
	short := o
	short.Deadlines.Handshake = 500 * time.Millisecond
	refusal(t, short, remote.PhaseHandshake, remote.KindTimeout, "sent no SSH greeting within 500ms")
	d.Thaw()
	if out, _ := run(t, c.Exec, "echo three", ""); out != "three\n" {
		t.Errorf("got %q", out)
	}
}
