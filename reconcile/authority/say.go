package authority

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"stado.internal/stado/fleet"
)

// Sentences of a move and of a push, as the operator's manual gives them.

func sayAnswers(old fleet.HostName) string {
	return fmt.Sprintf("the registry authority %s answers; move the role through it with stado placement move on %s", old, old)
}

const sayPushAnswers = "the registry authority answers; a registry it would serve is pushed through it, without --last-known-good"

func sayNotAbove(offered, held fleet.Generation) string {
	return fmt.Sprintf("service directory generation %d is not above the %d this host's last-known-good copy holds; a copy is never rolled back", offered, held)
}

func sayHanded(path string, generation fleet.Generation, cause string) string {
	return fmt.Sprintf("handed %s to this host's last-known-good copy at service directory generation %d; the authority did not answer: %s", path, generation, cause)
}

func sayStepDown(h Head) string {
	return fmt.Sprintf("this host is no longer the registry authority: generation %d names %s", h.Generation, orNobody(h.Authority))
}

// Refusals of a move or a push as such.

func sayWrongHost(self, to fleet.HostName) string {
	return fmt.Sprintf("this host is %s, and the registry authority role is taken by the host that is to have it; run stado placement move --authority --to-host %s on %s", self, to, to)
}

func sayAlready(to fleet.HostName) string {
	return fmt.Sprintf("host %s is already the registry authority; nothing is to be moved", to)
}

// thisHost names the host that refuses. One that holds nothing may not know what the registry calls it.
func thisHost(self fleet.HostName) string {
	if self == "" {
		return "this host"
	}
	return fmt.Sprintf("this host, %s,", self)
}

func sayIsAuthority(self fleet.HostName) string {
	return fmt.Sprintf("%s is the registry authority; a registry is pushed to it without --last-known-good", thisHost(self))
}

func sayNoCopy(self fleet.HostName) string {
	return fmt.Sprintf("%s keeps no last-known-good copy of the registry; run its agent until it has read one, or choose another host", thisHost(self))
}

func sayCopyUnreadable(copyError, cause string) string {
	s := "this host's last-known-good copy cannot be read: " + copyError
	if cause != "" {
		s += "; and the registry authority did not answer: " + cause
	}
	return s
}

func sayNoAuthority(self fleet.HostName) string {
	return fmt.Sprintf("the last-known-good copy of %s names no registry authority; set service_directory.authority in its registry", thisHost(self))
}

func sayNotAuthority(self fleet.HostName, held Head) string {
	return fmt.Sprintf("this host, %s, is not the registry authority: generation %d names %s; write there", self, held.Generation, orNobody(held.Authority))
}

func sayTakeElsewhere(self, names fleet.HostName, generation fleet.Generation) string {
	return fmt.Sprintf("generation %d names %s as the registry authority, and this host is %s; nothing is taken", generation, orNobody(names), self)
}

func sayTakeUnclaimed(self fleet.HostName, generation fleet.Generation) string {
	return fmt.Sprintf("this host, %s, has not promised generation %d to the move that offers it; run stado placement move --authority --to-host %s on the registry authority", self, generation, self)
}

func sayUnfinished(m Move) string {
	return fmt.Sprintf("the move of the registry authority to %s, generation %d, is not finished; run it again with --to-host %s, or give it up with --abandon", m.To, m.Generation, m.To)
}

func sayOvertaken(m Move, h Head) string {
	return fmt.Sprintf("the claim of generation %d for %s is overtaken: generation %d names %s; give it up with --abandon and look again", m.Generation, m.To, h.Generation, orNobody(h.Authority))
}

func sayLost(m Move) string {
	return fmt.Sprintf("the registry that this host held when it began the move to %s, generation %d, is lost; if another host holds that generation, read it from there first, else give the move up with --abandon", m.To, m.Generation)
}

func sayWritten(m Move) string {
	return fmt.Sprintf("generation %d, which names %s, is written already, and what is written is not taken back; run the move again without --abandon to finish it", m.Generation, m.To)
}

func sayTaken(r Receipt) string {
	if r.Unanswered == "" {
		return fmt.Sprintf("the registry authority role has moved from %s to %s at service directory generation %d; the stores of both are at %s", r.Fenced, r.Authority, r.Generation, r.Store.Version)
	}
	s := fmt.Sprintf("the registry authority role was taken by %s at service directory generation %d; its store is at %s and %d hosts were handed the registry", r.Authority, r.Generation, r.Store.Version, len(r.Hosts))
	return s + fmt.Sprintf("; %s did not answer: %s", r.Fenced, r.Unanswered)
}

func saySplitRisk(r Receipt) string {
	return fmt.Sprintf("no majority of all registered hosts has promised generation %d to %s: a host that could not be asked may have promised it to another mover, and the fleet may be split (look at stado registry log there)", r.Generation, r.Authority)
}

func sayPartial(r Receipt) error {
	store := "the store took it as " + r.Store.Version
	if r.Store.Error != "" {
		store = "the store did not take it: " + r.Store.Error
	}
	var missed []string
	for _, h := range r.Hosts {
		if h.Receipt == nil {
			missed = append(missed, fmt.Sprintf("%s (%s)", h.Host, fleet.OneLine(h.Error, fleet.MaxText)))
		}
	}
	hosts := "every host was handed it"
	if missed != nil {
		hosts = "not handed to " + strings.Join(missed, ", ")
	}
	return fmt.Errorf("the registry authority role was taken by %s at service directory generation %d only partly: %s; %s; run the same command again to go on", r.Authority, r.Generation, store, hosts)
}

const (
	sayNotWritten = "not written yet"
	sayNotHanded  = "not handed yet"
	sayExhausted  = "the highest generation there is, is used; no other can be claimed"
)

// Answers to a claim.

func sayRecovering(host fleet.HostName) string {
	return fmt.Sprintf("recovering: host %s lost its anchor and does not know what it has promised; it grants again when every other host has said what it holds", host)
}

func sayUnregistered(host fleet.HostName, generation fleet.Generation) string {
	return fmt.Sprintf("host %s is not registered in generation %d of the registry", host, generation)
}

func sayHolds(h Host, generation fleet.Generation) string {
	return fmt.Sprintf("host %s holds generation %d, which names %s; generation %d is not to be had", h.Name, h.Held.Generation, orNobody(h.Held.Authority), generation)
}

func sayPromised(host fleet.HostName, p *Promise) string {
	s := fmt.Sprintf("host %s has promised generation %d to %s", host, p.Generation, p.Mover)
	if p.Ended != Standing {
		s += ", which gave it up; claim a higher one"
	}
	return s
}

func sayEnded(p *Promise) string {
	ended := "has lapsed"
	if p.Ended == Released {
		ended = "was given back"
	}
	return fmt.Sprintf("the claim of generation %d by %s %s; claim a higher one", p.Generation, p.Mover, ended)
}

func sayKept(generation fleet.Generation, mover fleet.HostName) string {
	if mover == "" {
		return fmt.Sprintf("generation %d is claimed; waiting", generation)
	}
	return fmt.Sprintf("generation %d is claimed by %s; waiting", generation, mover)
}

func sayLeap(claimed, held fleet.Generation) string {
	return fmt.Sprintf("generation leap refused: generation %d is %d above the held %d, and one change may raise it by %d at most", claimed, claimed-held, held, fleet.MaxLeap)
}

func sayNotDescended(h Host, base Head) string {
	return fmt.Sprintf("host %s holds generation %d, commit %s, from which the claim's base, generation %d, commit %s, does not descend; join the two histories first",
		h.Name, h.Held.Generation, h.Held.Commit, base.Generation, base.Commit)
}

// What a round of claims comes to.

func sayForkedBase(m Move, a Answer) string {
	return fmt.Sprintf("host %s holds generation %d, which names %s and does not descend from generation %d that this host builds on; join the two histories first",
		a.Host, a.Held.Generation, orNobody(a.Held.Authority), m.Base.Generation)
}

func sayNoQuorum(m Move, r round) string {
	var against []string
	for _, s := range r.missing {
		against = append(against, fmt.Sprintf("%s (%s)", s.host, cmp.Or(s.cause, "not asked")))
	}
	for _, a := range r.refusals {
		against = append(against, fmt.Sprintf("%s (%s)", a.Host, a.Sentence))
	}
	return fmt.Sprintf("generation %d is granted by %d of %d registered hosts, and the registry requires %d: %s",
		m.Generation, len(r.granted), len(m.Electorate), Majority(len(m.Electorate)), strings.Join(against, ", "))
}

func sayNoOwn(m Move) string {
	return fmt.Sprintf("this host, %s, has not promised generation %d to its own claim, and is no registered host of generation %d or cannot write its anchor", m.Self, m.Generation, m.Base.Generation)
}

func sayOtherMover(a Answer) string {
	return fmt.Sprintf("%s, and %s does not say what became of it; wait until the promise lapses after %d refresh intervals and at least %s, or run stado placement move --authority --abandon on %s",
		a.Sentence, a.Promised.Mover, lapseIntervals, lapseLeast, a.Promised.Mover)
}

func sayUsed(m Move, holder fleet.HostName) string {
	return fmt.Sprintf("host %s holds generation %d already, which names %s", holder, m.Base.Generation, orNobody(m.Base.Authority))
}

func sayTries(m Move, why *Refusal) string {
	return fmt.Sprintf("%d generations were claimed in turn, the last one %d, and none could be had: %s", m.Tries+1, m.Generation, why.Sentence)
}

// Histories.

func sayDispute(held Head, p Peer) string {
	return fmt.Sprintf("authority disputed: host %s holds generation %d, which names %s and does not descend from generation %d held here; nothing is written until the two histories are joined (stado registry heal)",
		p.Host, p.Held.Generation, orNobody(p.Held.Authority), held.Generation)
}

func sayStepDownForked(held Head, p Peer) string {
	base := "the two have no commit in common"
	if p.Base != "" {
		base = "the commits made here since their merge base " + p.Base + " are in nobody else's history"
	}
	return fmt.Sprintf("%s; %s: this host holds generation %d, commit %s, and %s holds generation %d, commit %s; join the two with stado registry heal on %s",
		sayStepDown(p.Held), base, held.Generation, held.Commit, p.Host, p.Held.Generation, p.Held.Commit, orNobody(p.Held.Authority))
}

func sayHealElsewhere(self, on fleet.HostName) string {
	return fmt.Sprintf("this host is %s, and two histories are joined by the host that is to be the authority of both; run stado registry heal on %s", self, orNobody(on))
}

func sayUnrelated(ours, theirs Head) string {
	return fmt.Sprintf("it cannot be told how generation %d and generation %d are related: fetch the commits of both first", ours.Generation, theirs.Generation)
}

func sayPrefer(ours, theirs Head) string {
	return fmt.Sprintf("generation %d names %s and generation %d names %s, and both moved the role once: choose with --prefer %s or --prefer %s",
		ours.Generation, orNobody(ours.Authority), theirs.Generation, orNobody(theirs.Authority), orNobody(ours.Authority), orNobody(theirs.Authority))
}

func sayPlanAnew(held Head) string {
	return fmt.Sprintf("generation %d is held now, which is neither of the two that are to be joined; plan the join anew", held.Generation)
}

// Messages.

var errTooLong = errors.New("it is longer than 32 KiB")

func sayBadMessage(what string, err error) error {
	return fmt.Errorf("cannot read the %s: %w (both hosts must run a build that knows it)", what, err)
}

func sayBadPart(what, part string) error {
	return fmt.Errorf("cannot read the %s: its %s is missing or malformed", what, part)
}

func sayBadRecord(cause string) error {
	return fmt.Errorf("cannot read the record of the move: %s (ask the other hosts with stado registry claim what they hold, then remove it)", cause)
}

func orNobody(h fleet.HostName) fleet.HostName {
	if h == "" {
		return "nobody"
	}
	return h
}
