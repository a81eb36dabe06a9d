package policies

import (
	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// Revision is one compiled registry, as far as it is judged against another.
type Revision struct {
	// Registry is nil when there is no such revision.
	Registry *fleet.Registry
	// Digest is the digest of the compiled document.
	Digest string
	// Positions says where the files give a value; nil when that is not known.
	Positions map[string]schema.Position
	// AllowEmptyFleet permits the next revision to have no hosts. Nothing else does.
	AllowEmptyFleet bool
}

const generationPath = "service_directory.generation"

// Judge compares two revisions and refuses what must not follow on what is held. With no previous revision everything may follow. A
// generation that rises while the content stays is allowed: that is how a reused number is repaired.
func Judge(previous, next Revision) fleet.Findings {
	if previous.Registry == nil || next.Registry == nil {
		return nil
	}
	var out fleet.Findings
	held, offered := previous.Registry.Directory.Generation, next.Registry.Directory.Generation
	at := schema.At(next.Positions, generationPath)
	switch {
	case offered < held:
		out = append(out, refuse(RuleRollback, at, generationPath, sayRollback(offered, held), hintRollback(held)))
	case offered == held && previous.Registry.Policies.GenerationMode == fleet.GenerationStamped:
		// The job that stamps raises it after the merge; until then agents wait with the change.
	case offered == held && previous.Digest != next.Digest:
		out = append(out, refuse(RuleReused, at, generationPath, sayReused(held, previous.Digest, next.Digest), hintRaise(held)))
	case offered-held > fleet.MaxLeap:
		out = append(out, refuse(RuleLeap, at, generationPath, sayLeap(offered, held), hintLeap(held)))
	}
	if len(previous.Registry.Hosts) > 0 && len(next.Registry.Hosts) == 0 && !next.AllowEmptyFleet {
		if hosts, known := next.Positions["hosts"]; known {
			at = hosts
		} // else the removed files have no line any more, and the generation stands for the change
		out = append(out, refuse(RuleEmptyFleet, at, "hosts", sayEmptyFleet(previous.Registry.HostNames()), hintEmptyFleet))
	}
	out.Sort()
	return out
}

func refuse(rule string, at schema.Position, fieldPath, message, hint string) fleet.Finding {
	return fleet.Finding{
		Rule: rule, Severity: fleet.SeverityError, Path: fieldPath,
		File: at.File, Line: at.Line, Column: at.Column, Message: message, Hint: hint,
	}
}
