package source

import "stado.internal/stado/schema"

// The rules of this package: what a repository may hold, and what an evaluation may need. [Rules] explains them.
const (
	RuleSymlink   = "STADO-GIT-001"
	RuleSubmodule = "STADO-GIT-002"
	RuleName      = "STADO-GIT-003"
	RuleFileSize  = "STADO-GIT-004"
	RuleTotalSize = "STADO-GIT-005"
	RuleEntries   = "STADO-GIT-006"
	RuleDepth     = "STADO-GIT-007"
	RuleSpecial   = "STADO-GIT-008"
	RuleTwice     = "STADO-GIT-009"
	RuleLimit     = "STADO-GIT-010"
	RuleCrash     = "STADO-GIT-011"
	RuleUnmerged  = "STADO-GIT-012"
)

// Rules are the rules of this package in the order of their ids; the list is the caller's own.
func Rules() []schema.Rule {
	return []schema.Rule{
		{ID: RuleSymlink, Title: "symbolic link", Explanation: "A registry holds plain files: a link could show the content of a file of the host that evaluates it."},
		{ID: RuleSubmodule, Title: "submodule", Explanation: "A registry is one repository; the address of a submodule is never contacted."},
		{ID: RuleName, Title: "unsafe name", Explanation: "Names such as .., .git, or names with a slash, a backslash or a control character mean something else to some program."},
		{ID: RuleFileSize, Title: "file too large", Explanation: "A committed file has at most 1 MiB."},
		{ID: RuleTotalSize, Title: "repository too large", Explanation: "The files of one commit have at most 64 MiB together."},
		{ID: RuleEntries, Title: "too many files", Explanation: "One commit has at most 200,000 files and directories."},
		{ID: RuleDepth, Title: "too deep", Explanation: "Directories nest at most 16 deep."},
		{ID: RuleSpecial, Title: "not a file", Explanation: "A registry holds plain files and directories: no sockets, pipes or devices, and no unknown kinds of git entries."},
		{ID: RuleTwice, Title: "name twice", Explanation: "One directory of a commit names the same entry twice; git itself never writes that."},
		{ID: RuleLimit, Title: "evaluation limit", Explanation: "The evaluation ran into its limit of processor time, memory, wall time or output, and was ended."},
		{ID: RuleCrash, Title: "evaluator crash", Explanation: "The evaluator ended without a verdict."},
		{ID: RuleUnmerged, Title: "unmerged file", Explanation: "The index holds two versions of the file, because a merge is not finished."},
	}
}
