package policies

import (
	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// Revision is one compiled registry, as far as it is judged against another.
type Revision struct {
	// Registry is nil when there is no such revision.
	Registry *fleet.Registry
	// Document is the canonical JSON that Registry was decoded from.
	Document []byte
	// Digest is the digest of the compiled document.
	Digest string
	// Positions says where the files give a value; nil when that is not known.
	Positions map[string]schema.Position
	// AllowEmptyFleet permits the next revision to have no hosts. Nothing else does.
	AllowEmptyFleet bool
	// TakesNumber says that the commit is one that raises the generation where changes leave it alone: a stamp, or a join of histories.
	TakesNumber bool
	// GenerationFile is git's name of the content of generation.cue; empty when there is none, or that is not known.
	GenerationFile string
	// Gap says of the next revision how it follows on the previous one.
	Gap Gap
	// Commit carries the revision; empty for a document that came without one. It is read, with OwnPolicies, by whoever can read the
	// commit's files: [Judge] itself needs neither.
	Commit string
	// OwnPolicies says that the commit has policies of the fleet's own, which judge what follows on it.
	OwnPolicies bool
}

// Gap is what lies between two revisions.
type Gap int

// The gaps. Some rules are about what one commit may do at once, and cannot be applied to several together.
const (
	GapNone    Gap = iota // next is the child of previous, or a change that is proposed against it
	GapRefused            // commits that were refused lie between them
	GapMerged             // next joins another history to that of previous
	GapUnknown            // what lies between them is not known
)

// GapBetween is the gap between a commit that was admitted and one that is judged against it, by the first parent of that one. last is the
// commit that was looked at before it, whether or not that was refused.
func GapBetween(previous, last, parent string) Gap {
	switch {
	case previous == "":
		return GapUnknown
	case parent == previous:
		return GapNone
	case parent == last:
		return GapRefused
	}
	return GapMerged
}

const (
	generationPath = "service_directory.generation"
	authorityPath  = "service_directory.authority"
	servicesPath   = "service_directory.services"
)

// Judge compares two revisions and refuses what must not follow on what is held. With no previous revision everything may follow. A
// generation that rises while the content stays is allowed: that is how a reused number is repaired. The previous revision's settings
// judge: a change cannot loosen the rule that it breaks.
func Judge(previous, next Revision) fleet.Findings {
	if previous.Registry == nil || next.Registry == nil {
		return nil
	}
	j := judge{previous: previous, next: next}
	j.generation()
	j.emptyFleet()
	j.authority()
	if next.Gap != GapUnknown {
		j.limits()
	}
	j.findings.Sort()
	return j.findings
}

type judge struct {
	previous, next Revision
	findings       fleet.Findings
}

func (j *judge) refuse(rule string, at schema.Position, fieldPath, message, hint string) {
	j.findings = append(j.findings, refuse(rule, at, fieldPath, message, hint))
}

func (j *judge) at(fieldPath string) schema.Position { return schema.At(j.next.Positions, fieldPath) }

func (j *judge) generation() {
	held, offered := j.previous.Registry.Directory.Generation, j.next.Registry.Directory.Generation
	stamped := j.previous.Registry.Policies.GenerationMode == fleet.GenerationStamped
	differ, at := j.previous.Digest != j.next.Digest, j.at(generationPath)
	switch {
	case offered < held:
		j.refuse(RuleRollback, at, generationPath, sayRollback(offered, held), hintRollback(held))
	case offered == held && differ && !stamped:
		j.refuse(RuleReused, at, generationPath, sayReused(held, j.previous.Digest, j.next.Digest), hintRaise(held))
	case offered-held > fleet.MaxLeap:
		j.refuse(RuleLeap, at, generationPath, sayLeap(offered, held), hintLeap(held))
	case stamped && j.next.Gap <= GapRefused:
		j.stamped(held, offered, at)
	}
}

// stamped refuses a change that touches the generation's file where only a stamp does. A move of the authority takes its number itself:
// it is one commit, made where writes are put in order. A stamp vouches for what lies between, refused or not.
func (j *judge) stamped(held, offered fleet.Generation, at schema.Position) {
	before, after := j.previous.GenerationFile, j.next.GenerationFile
	if offered == held && (before == after || before == "" || after == "") {
		return
	}
	others := changed(j.previous.Document, j.next.Document)
	moved := j.previous.Registry.Directory.Authority != j.next.Registry.Directory.Authority
	switch raised := offered > held; {
	case raised && len(others) > 0 && j.next.Gap == GapNone:
		j.refuse(RuleStamped, at, generationPath, sayStamped(held, offered, others), hintStamped)
	case !raised || !moved && !j.next.TakesNumber:
		j.refuse(RuleStamped, at, generationPath, sayTouched(held, offered), hintStamped)
	}
}

func (j *judge) emptyFleet() {
	if len(j.previous.Registry.Hosts) == 0 || len(j.next.Registry.Hosts) > 0 || j.next.AllowEmptyFleet {
		return
	}
	j.refuse(RuleEmptyFleet, j.removed("hosts"), "hosts", sayEmptyFleet(j.previous.Registry.HostNames()), hintEmptyFleet)
}

// removed is the place of a change that takes something away: removed files have no line any more, so if nothing of the kind is left
// the generation stands for the change.
func (j *judge) removed(fieldPath string) schema.Position {
	if at, known := j.next.Positions[fieldPath]; known {
		return at
	}
	return j.at(generationPath)
}

func refuse(rule string, at schema.Position, fieldPath, message, hint string) fleet.Finding {
	return fleet.Finding{
		Rule: rule, Severity: fleet.SeverityError, Path: fieldPath,
		File: at.File, Line: at.Line, Column: at.Column, Message: message, Hint: hint,
	}
}
