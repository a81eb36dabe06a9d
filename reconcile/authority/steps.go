package authority

import (
	"slices"

	"stado.internal/stado/fleet"
)

// Do is what a step does.
type Do string

// The steps, in their order.
const (
	DoPromise  Do = "promise"   // make this host's own promise durable, as the answer of [Host.Decide] to the claim
	DoAsk      Do = "ask"       // ask Hosts for the claim; then [Move.Settle]
	DoPromote  Do = "promote"   // make the document on Base ([Move.Document]) and validate it; then [Move.Promote]
	DoCopy     Do = "copy"      // write it into this host's copy, through the fence; then [Move.Copied]
	DoStore    Do = "store"     // push it, without force, into the store that this host reads, which may hold it already; then [Move.Stored]
	DoHandOver Do = "hand-over" // push what this host holds to Hosts; then [Move.Handed] for each
	DoMirror   Do = "mirror"    // the role moves through the authority: give the document to Hosts, the new one, which takes it as its copy and into its repository ([Take]); then [Move.Handed]
	DoFinish   Do = "finish"    // print [Move.Receipt]; the record of a move that was taken is removed
)

// Point names a write of a move. Crash tests kill the process before it.
type Point string

// The points, in the order of a move. Those with the word record are writes of the [Move] itself.
const (
	PointBegun    Point = "move:record-begun"
	PointPromise  Point = "move:promise"
	PointPromoted Point = "move:record-promoted"
	PointCopy     Point = "move:copy"
	PointCopied   Point = "move:record-copied"
	PointMirror   Point = "move:mirror" // of a move through the authority, which makes this write before the next
	PointStore    Point = "move:store"
	PointStored   Point = "move:record-stored"
	PointHanded   Point = "move:record-handed"
)

// Step is what a move does next.
type Step struct {
	Do    Do
	Hosts []fleet.HostName // of DoAsk, DoHandOver and DoMirror
	Point Point            // of the write that the step makes; empty when it makes none
}

// Next is what follows. asked are the hosts whose answers to the present claim are known, or known not to come; granted says that the
// answers were enough ([Proceed]).
func (m Move) Next(asked []fleet.HostName, granted bool) Step {
	switch {
	case m.Phase == PhaseAbandoned:
		return Step{Do: DoFinish}
	case m.Phase == PhasePromoted:
		return Step{Do: DoCopy, Point: PointCopy}
	case m.Phase == PhaseClaiming && granted:
		return Step{Do: DoPromote}
	case m.Phase == PhaseClaiming && !slices.Contains(asked, m.Self):
		return Step{Do: DoPromise, Point: PointPromise}
	case m.Phase == PhaseClaiming:
		return Step{Do: DoAsk, Hosts: without(m.Electorate, asked)}
	}
	left, failed := m.left()
	switch {
	case m.Through && left != nil:
		return Step{Do: DoMirror, Hosts: left, Point: PointMirror}
	case m.Through && failed: // whoever reads the store would be sent to a repository that lacks the document
		return Step{Do: DoFinish}
	case m.Store == nil:
		return Step{Do: DoStore, Point: PointStore}
	case left == nil:
		return Step{Do: DoFinish}
	}
	return Step{Do: DoHandOver, Hosts: left}
}

// left are the hosts that are still to be given the document; failed says that one was tried in vain.
func (m Move) left() (left []fleet.HostName, failed bool) {
	for _, host := range m.receivers() {
		h, ok := m.Hosts[host]
		if !ok {
			left = append(left, host)
		}
		failed = failed || h.Error != ""
	}
	return left, failed
}

// Point is the name under which the record is written as it stands.
func (m Move) Point() Point {
	switch {
	case m.Store != nil && (m.Through || len(m.Hosts) == 0):
		return PointStored
	case len(m.Hosts) > 0:
		return PointHanded
	}
	switch m.Phase {
	case PhasePromoted:
		return PointPromoted
	case PhaseCopied:
		return PointCopied
	case PhaseClaiming, PhaseAbandoned:
	}
	return PointBegun
}

func without(all, some []fleet.HostName) []fleet.HostName {
	return slices.DeleteFunc(slices.Clone(all), func(h fleet.HostName) bool { return slices.Contains(some, h) })
}
