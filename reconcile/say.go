package reconcile

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/authority"
	"stado.internal/stado/reconcile/store"
)

// What the state "starting" waits on.
const (
	sayReadingStore = "reading this host's registry store before binding any port"
	sayPending      = "pending: waiting for a generation"
)

func sayPendingLong(commit string) string {
	return sayPending + ": commit " + commit + " changes the registry and nothing has raised the generation since (run: stado registry stamp --push)"
}

func sayReadingAuthority(host string) string {
	return "reading its first registry snapshot from the authority " + host + " before binding any port"
}

func sayNoAnswer(host string, interval time.Duration) string {
	return "no answer from the registry authority " + host + " within " + seconds(interval)
}

func sayRecovery(cause string, generation fleet.Generation) string {
	return fmt.Sprintf("stado resolver recovery: the registry authority's first snapshot did not answer (%s); serving generation %d from the registry store immediately while authority retries continue",
		cause, generation)
}

func sayOther(source, cause string) string { return source + ", asked in its place: " + cause }

func sayInstead(cause, source string) string {
	return "the registry authority did not answer (" + cause + "); the registry is read from " + source + " in its place"
}

const sayAnswersAgain = "the registry authority answers again"

func sayContradiction(a, b result) string {
	one, other := a.end(), b.end()
	return fmt.Sprintf("fork refused: %s is at commit %s (generation %d) and %s at commit %s (generation %d), and neither follows on the other; join the two (stado registry heal), or put one of them back",
		a.from, one.Commit, one.Generation, b.from, other.Commit, other.Generation)
}

func sayLapsed(p *authority.Promise, after time.Duration) string {
	return fmt.Sprintf("the promise of generation %d to host %s has lapsed: it was not used for %s", p.Generation, p.Mover, after)
}

func saySuspended(s store.Suspension) string {
	return fmt.Sprintf("adoption is suspended on this host since %s%s: %s (end it: stado agent resume)", s.Since.UTC().Format(time.RFC3339), until(s), s.Reason)
}

// until is the end of a suspension in a sentence.
func until(s store.Suspension) string {
	if s.Until == nil {
		return ""
	}
	return ", until " + s.Until.UTC().Format(time.RFC3339)
}

func sayResumed(s store.Suspension) string {
	return fmt.Sprintf("adoption goes on: the suspension of %s has ended (%s)", s.Since.UTC().Format(time.RFC3339), s.Reason)
}

func sayOtherTip(commit, tip string) string {
	return fmt.Sprintf("the authority's branch is at %s, not at %s: what is accepted is the commit that the branch has (look at it again, then name it)", tip, commit)
}

func sayNoReset(commit, held string) string {
	return fmt.Sprintf("nothing was reset: commit %s descends from the held commit %s, and is admitted or refused without a person's word", commit, held)
}

const (
	sayNothingToReset  = "this host holds nothing, so the authority's first registry is admitted without a person's word"
	sayHeldWithoutRoot = "what this host holds was handed over as a document without a commit, so there is no history that could have been reset; the next commit above its generation is admitted without a person's word"
)

func sayReset(generation fleet.Generation, r store.Reset) string {
	return fmt.Sprintf("a reset of the authority's history was accepted at %s: commit %s (generation %d), which does not descend from commit %s (generation %d): %s",
		r.At.UTC().Format(time.RFC3339), r.Commit, generation, r.FromCommit, r.FromGeneration, r.Reason)
}

func sayHanded(cause string, generation fleet.Generation) string {
	return fmt.Sprintf("stado resolver: the registry authority did not answer (%s); adopting the newer registry this host was handed, directory generation %d",
		cause, generation)
}

func sayRefreshFailed(attempt int, interval time.Duration, cause string) string {
	return fmt.Sprintf("stado resolver refresh failed, attempt %d, next on the declared %s interval: %s", attempt, seconds(interval), cause)
}

func sayRecovered(attempts int) string {
	return fmt.Sprintf("stado resolver refresh recovered after %d failed attempts", attempts)
}

func sayAdopted(s *fleet.Snapshot) string {
	from := "commit " + s.Commit
	if s.Commit == "" {
		from = "handed over"
	}
	return fmt.Sprintf("stado resolver serves generation %d of the registry, %s", s.Generation(), from)
}

func sayRollback(offered, held fleet.Generation) string {
	return fmt.Sprintf("service directory rollback rejected: generation %d < %d", offered, held)
}

func sayReused(generation fleet.Generation, held, offered string) string {
	return fmt.Sprintf("generation %d reused: held %s, offered %s (on the branch, run: stado bump --onto origin/main)", generation, held, offered)
}

func sayFork(held Standing, offered Offered) string {
	base := "they have no commit in common"
	if offered.MergeBase != "" {
		base = "their merge base is " + offered.MergeBase
	}
	is := "does not compile and"
	if offered.Generation > 0 {
		is = fmt.Sprintf("(generation %d)", offered.Generation)
	}
	return fmt.Sprintf("fork refused: commit %s %s does not descend from the held commit %s (generation %d), %s; put the branch back on a descendant of the held commit",
		offered.Commit, is, held.Commit, held.Generation, base)
}

func sayLeap(offered, held fleet.Generation) string {
	return fmt.Sprintf("generation leap refused: generation %d is %d above the held %d, and one change may raise it by %d at most",
		offered, offered-held, held, fleet.MaxLeap)
}

func sayFindings(commit string, findings fleet.Findings) string {
	return "commit " + commit + " refused: " + firstOf(findings, "it does not compile")
}

func sayDocument(findings fleet.Findings) string {
	return "the document is refused: " + firstOf(findings, "")
}

func sayForkedDocument(bases []string, held *fleet.Snapshot) string {
	return fmt.Sprintf("the document is refused: it follows on %s, and this host holds generation %d with digest %s (make it from what this host holds: stado registry show)",
		strings.Join(bases, ", "), held.Generation(), held.Digest)
}

// firstOf is the first error of findings and the number of others; without any, what is said instead.
func firstOf(findings fleet.Findings, none string) string {
	first, more := none, -1
	for _, f := range findings {
		switch {
		case f.Severity != fleet.SeverityError:
		case more < 0:
			first, more = f.String(), 0
		default:
			more++
		}
	}
	if more > 0 {
		first += fmt.Sprintf("; and %d more", more)
	}
	return first
}

func sayUnsigned(mode fleet.TrustMode, why fleet.Finding) string {
	return fmt.Sprintf("the held registry asks for signatures (trust mode %s): %s", mode, why)
}

func seconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) + "s"
}

func sayNoDocument(tip string) string {
	return "the authority offered no document to serve (its branch is at " + tip + "); it is asked again on the next refresh"
}

func sayNoProgress(tip string) string {
	return "the way to commit " + tip + " is longer than one read and the last one came no further; it is asked again on the next refresh"
}
