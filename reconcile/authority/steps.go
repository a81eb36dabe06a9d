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
	DoMirror   Do = "mirror"    // the role moves through the authority: push the commit into the new authority's repository and wait until it holds it; then [Move.Handed]
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
	case m.Store == nil:
		return Step{Do: DoStore, Point: PointStore}
	}
	var left []fleet.HostName
	for _, h := range m.receivers() {
		if _, ok := m.Hosts[h]; !ok {
			left = append(left, h)
		}
	}
	switch {
	case left == nil:
		return Step{Do: DoFinish}
	case m.Through:
		return Step{Do: DoMirror, Hosts: left}
	}
	return Step{Do: DoHandOver, Hosts: left}
}

// Point is the name under which the record is written as it stands.
func (m Move) Point() Point {
	switch {
	case len(m.Hosts) > 0:
		return PointHanded
	case m.Store != nil:
		return PointStored
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
