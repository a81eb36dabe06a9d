package authority

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"stado.internal/stado/fleet"
)

// TestSay compares every sentence with testdata/say.golden; STADO_UPDATE=1 writes it.
func TestSay(t *testing.T) {
	head := Head{Commit: "c7", Generation: 7, Digest: "d7", Authority: "old"}
	higher := Head{Commit: "c9", Generation: 9, Digest: "d9", Authority: "a1"}
	move := Move{To: "new", Self: "new", Generation: 8, Base: head, Electorate: []fleet.HostName{"a1", "a2", "new", "old"}, Tries: 4}
	promise := &Promise{Generation: 9, Mover: "a1"}
	ended := &Promise{Generation: 9, Mover: "a1", Ended: Released}
	lapsed := &Promise{Generation: 9, Mover: "a1", Ended: Lapsed}
	host := Host{Name: "a2", Held: head}
	refused := Answer{Host: "a2", Sentence: sayPromised("a2", promise), Promised: promise, Held: higher}
	receipt := Receipt{Authority: "new", Generation: 8, Store: StoreResult{Version: "c8"}, Hosts: []HandOver{{Host: "a1", Error: "no answer"}}}
	missing := receipt
	missing.Store, missing.Hosts = StoreResult{Error: "no space left on device"}, []HandOver{{Host: "a1", Receipt: &PushReceipt{}}}
	got := strings.Join([]string{
		sayAnswers("old"),
		sayPushAnswers,
		sayNotAbove(7, 8),
		sayHanded("-", 8, "no answer"),
		sayStepDown(higher),
		sayStepDownForked(head, Peer{Host: "a1", Held: higher, Base: "c5"}),
		sayStepDownForked(head, Peer{Host: "a1", Held: higher}),
		sayHealElsewhere("a1", "new"),
		sayWrongHost("a1", "new"),
		sayAlready("new"),
		sayIsAuthority("old"),
		sayNoCopy("new"),
		sayCopyUnreadable("held.json is damaged", "no answer"),
		sayCopyUnreadable("held.json is damaged", ""),
		sayNoAuthority("new"),
		sayNotAuthority("new", head),
		sayTakeElsewhere("new", "a1", 8),
		sayTakeUnclaimed("new", 8),
		sayUnfinished(move),
		sayOvertaken(move, higher),
		sayLost(move),
		sayWritten(move),
		sayTaken(Receipt{Authority: "new", Fenced: "old", Generation: 8, Unanswered: "no answer", Store: StoreResult{Version: "c8"}}),
		sayTaken(Receipt{Authority: "new", Fenced: "old", Generation: 8, Store: StoreResult{Version: "c8"}}),
		saySplitRisk(receipt),
		sayPartial(receipt).Error(),
		sayPartial(missing).Error(),
		sayNotWritten,
		sayNotHanded,
		sayExhausted,
		sayNoCopy(""),
		sayRecovering("a2"),
		sayUnregistered("b9", 7),
		sayHolds(host, 7),
		sayPromised("a2", promise),
		sayPromised("a2", ended),
		sayEnded(ended),
		sayEnded(lapsed),
		sayKept(9, "a1"),
		sayKept(9, ""),
		sayLeap(2_000_007, 7),
		sayNotDescended(host, higher),
		sayForkedBase(move, refused),
		sayNoQuorum(move, round{granted: []fleet.HostName{"new"}, missing: []silence{{"a1", ""}, {"old", "no registry authority SSH connection path answered"}}, refusals: []Answer{refused}}),
		sayNoOwn(move),
		sayOtherMover(refused),
		sayUsed(move, "a1"),
		sayTries(move, refuse(ReasonPromised, refused.Sentence)),
		sayDispute(head, Peer{Host: "a1", Held: higher}),
		sayUnrelated(head, higher),
		sayPrefer(head, higher),
		sayPlanAnew(head),
		sayBadMessage("claim", errors.New("unexpected end of JSON input")).Error(),
		fmt.Sprint(errTooLong),
		sayBadPart("answer", "nonce").Error(),
		sayBadRecord("its phase is missing or malformed").Error(),
		string(orNobody("")),
	}, "\n") + "\n"
	const path = "testdata/say.golden"
	if os.Getenv("STADO_UPDATE") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", path, d)
	}
}
