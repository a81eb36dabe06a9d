package store

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// TestSay compares every sentence with testdata/say.golden; STADO_UPDATE=1 writes it.
func TestSay(t *testing.T) {
	damaged := part{cause: errors.New("the checksum does not match the content")}
	missing := part{cause: fs.ErrNotExist}
	foreign := part{cause: sayForeign(snapshot(40, "x"), Held{Generation: 42}), foreign: true}
	r := reading{dir: "/s", anchor: damaged, slots: map[string]part{SlotA: missing, SlotB: damaged}}
	served := state{View: View{Held: Held{Generation: 42}, Snapshot: snapshot(41, "x")}, slot: SlotA}
	noon := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	later := noon.Add(time.Hour)
	nothing := state{View: View{Held: Held{Generation: 42}}}
	got := strings.Join([]string{
		sayCurrentDamaged(r, SlotB, damaged, served),
		sayCurrentDamaged(r, SlotB, foreign, served),
		sayForeign(snapshot(42, "x"), Held{Generation: 42, Digest: "d42"}).Error(),
		sayCurrentDamaged(r, SlotB, damaged, nothing),
		sayPreviousDamaged("/s/slot-b.json", missing, served),
		sayAnchorDamaged(r, state{View: View{Held: Held{Generation: 41}, Snapshot: snapshot(41, "x")}, slot: SlotA}),
		sayAnchorDamaged(r, served),
		sayNothingWhole(r, state{}),
		sayNothingWhole(r, nothing),
		sayWriteFailed("/s", errors.New("cannot write /s/slot-b.json: no space left on device"), 42, served),
		sayWriteFailed("/s", errors.New("cannot write /s/slot-b.json: no space left on device"), 42, nothing),
		sayWriteFailed("/s", errors.New("cannot write /s/held.json: input/output error"), 41, served),
		sayLogFailed("/s/admitted.jsonl", unix.ENOSPC, 2),
		sayLinesBad("/s/admitted.jsonl", []int{3}).Error(),
		sayLinesBad("/s/admitted.jsonl", []int{3, 7}).Error(),
		sayLower(41, 42).Error(),
		sayReused(42, "d1", "d2").Error(),
		saySuspended(43, Suspension{Reason: "a migration", Since: noon}).Error(),
		saySuspended(43, Suspension{Reason: "a migration", Since: noon, Until: &later}).Error(),
		saySuspensionDamaged("/s/suspended.json"),
	}, "\n") + "\n"
	const path = "testdata/say.golden"
	if os.Getenv("STADO_UPDATE") != "" {
		write(t, path, []byte(got))
	}
	if diff := cmp.Diff(string(read(t, path)), got); diff != "" {
		t.Errorf("sentences (-want +got):\n%s", diff)
	}
}
