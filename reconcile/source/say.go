package source

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/sandbox"
)

func sayError(e *Error) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cannot read the registry from %s: ", cmp.Or(e.Name, e.Remote))
	if e.Phase != "" {
		b.WriteString(e.Phase + ": ")
	}
	b.WriteString(e.Cause)
	if hint := sayHint(e); hint != "" {
		b.WriteString(" (" + hint + ")")
	}
	return b.String()
}

// sayHint is what to do about an error; empty when waiting is all there is to do.
func sayHint(e *Error) string {
	if strings.HasPrefix(e.Remote, bundleScheme+"://") {
		if hint := sayBundleHint(e.Kind); hint != "" {
			return hint
		}
	}
	switch e.Kind {
	case KindUnreachable, KindTimeout, KindServer:
		return "asked again at the next refresh"
	case KindWait:
		return "asked again at the first refresh after that"
	case KindProtocol:
		return "check that the address is a git repository's"
	case KindRedirect:
		return "redirects are not followed; configure that address if it is the registry's"
	case KindAuthentication:
		return "check the credential file and what it may read at the remote"
	case KindCertificate:
		return "name the authority that signed it in the CA file, or correct the remote's certificate"
	case KindNotFound:
		return "check the address"
	case KindOwnership:
		if path, ok := strings.CutPrefix(e.Remote, "ssh://"); ok {
			_, path, _ = strings.Cut(path, "/")
			return "give the repository there to the user that logs in, or run there: git config --global --add safe.directory /" + path
		}
		return "run the agent as the repository's owner, or run: git config --system --add safe.directory " + strings.TrimPrefix(e.Remote, "file://")
	case KindNoGit:
		return "install git, or read the repository over https://"
	case KindEmpty:
		return "commit a registry there and push it"
	case KindMissingBranch:
		return "push the branch, or configure the one that holds the registry"
	case KindShallow:
		return "run git fetch --unshallow in it; in a workflow, give the checkout fetch-depth: 0"
	case KindIncomplete:
		return "run git fsck in it and push the missing objects again"
	case KindLimit:
		return "remove the commit that needs so much from the branch"
	case KindNoSpace:
		return "free space on the disk that holds the store"
	case KindPermission:
		return "give the files to the user that runs the program"
	case KindBusy:
		return "wait until it is done"
	case KindFormat:
		return "make the registry's repository with git init --object-format=sha1"
	case KindRevision:
		return "name a branch, a tag or a commit of that repository"
	default:
		return ""
	}
}

// sayBundleHint is what to do about an error that a file has and no remote could; empty for others.
func sayBundleHint(k Kind) string {
	switch k {
	case KindProtocol:
		return "copy the file again, or make it anew: stado registry bundle create"
	case KindIncomplete:
		return "make one that goes further back, or the whole: stado registry bundle create without --since"
	case KindEmpty, KindMissingBranch:
		return "make it with stado registry bundle create, or of a branch of that name"
	case KindNotFound:
		return "check the path"
	default:
		return ""
	}
}

const sayFormat = "the repository names its objects by SHA-256, which is not supported"

func sayDeadline(bound string) string { return "no answer within " + bound }

func sayWait(status string, until time.Time) string {
	return fmt.Sprintf("the remote answers %s, and wants no question before %s", status, until.UTC().Format(time.RFC3339))
}

func sayGone(why string) string { return "the remote's git ended without an answer: " + why }

func sayRedirect(to string) string { return "the remote answers with a redirect to " + to }

func sayMissingBranch(branch string) string { return "there is no branch " + branch }

func sayBusy(store string) string { return "another process uses the store " + store }

func sayHistory(n int) string { return fmt.Sprintf("the branch has more than %d commits", n) }

// sayGate is the verdict of a gate, in the form of the sandbox's limits.
func sayGate(limit, bound, why string) string {
	return fmt.Sprintf("evaluation limit: %s, %s, in phase %s: %s", limit, bound, PhaseRead, why)
}

// limitFinding is the verdict on a commit whose evaluation met a limit.
func limitFinding(e *sandbox.LimitError) fleet.Finding {
	return fleet.Finding{
		Rule: RuleLimit, Severity: fleet.SeverityError, File: e.File, Message: e.Error(),
		Hint: "the file named is the one begun last and need not be the cause: look for a loop or a repetition in it, in what it uses and " +
			"in what was changed with it; a registry evaluates in a fraction of these limits",
	}
}

// crashFinding is the verdict on a commit that the evaluator did not survive.
func crashFinding(e *sandbox.CrashError) fleet.Finding {
	return fleet.Finding{
		Rule: RuleCrash, Severity: fleet.SeverityError, File: e.File, Message: e.Error(),
		Hint: "this is a defect of the program; the registry is refused because its meaning is unknown",
	}
}

func sayBytes(n int64) string {
	if n >= 1<<20 && n%(1<<20) == 0 {
		return fmt.Sprintf("%d MiB", n>>20)
	}
	if n >= 1<<20 {
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	}
	return fmt.Sprintf("%d bytes", n)
}

func sayCaseFold(file, other string) string {
	return fmt.Sprintf("unsafe path: %s and %s differ by case only", file, other)
}
