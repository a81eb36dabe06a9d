package schema

// Rule is one thing that a judge refuses, under an id that never changes its meaning.
type Rule struct {
	ID          string `json:"id"`
	Title       string `json:"title"`
	Explanation string `json:"explanation"`
}

// The rules of this package. [Rules] explains them.
const (
	RuleValue       = "STADO-SCHEMA-001"
	RuleUnknown     = "STADO-SCHEMA-002"
	RuleRetired     = "STADO-SCHEMA-003"
	RuleSyntax      = "STADO-SCHEMA-004"
	RuleIncomplete  = "STADO-SCHEMA-005"
	RuleMissing     = "STADO-SCHEMA-006"
	RuleConflict    = "STADO-SCHEMA-007"
	RulePackage     = "STADO-SCHEMA-008"
	RuleOtherLeaf   = "STADO-SCHEMA-009"
	RuleOutside     = "STADO-SCHEMA-010"
	RuleRepeated    = "STADO-SCHEMA-011"
	RuleBindClash   = "STADO-BIND-001"
	RulePath        = "STADO-FILE-001"
	RuleCaseFold    = "STADO-FILE-002"
	RuleNotText     = "STADO-FILE-003"
	RuleBOM         = "STADO-FILE-004"
	RuleLFS         = "STADO-FILE-005"
	RuleMarkers     = "STADO-FILE-006"
	RuleAttribute   = "STADO-FILE-007"
	RuleImport      = "STADO-FILE-008"
	RuleModule      = "STADO-FILE-009"
	RuleLineEnds    = "STADO-FILE-010"
	RuleSkipped     = "STADO-FILE-011"
	RuleFileSize    = "STADO-LIMIT-001"
	RuleTotalSize   = "STADO-LIMIT-002"
	RuleFileCount   = "STADO-LIMIT-003"
	RuleDepth       = "STADO-LIMIT-004"
	RuleNodes       = "STADO-LIMIT-005"
	RuleFields      = "STADO-LIMIT-006"
	RuleMoreResults = "STADO-LIMIT-007"
	RuleDocument    = "STADO-LIMIT-008"
)

// Rules are the rules of this package in the order of their ids; the list is the caller's own.
func Rules() []Rule {
	return []Rule{
		{RuleBindClash, "two listeners on one bind", "Every adapter of a host, and its api_bind, listens on an address of its own. Addresses are compared after localhost and IPv4-in-IPv6 are normalized."},
		{RulePath, "unsafe path", "A path component starts with a letter or a digit, is made of letters, digits, dots, underscores and hyphens, and has at most 128 of them; a path has at most 16 components."},
		{RuleCaseFold, "paths that differ by case only", "Two such paths are one file on some file systems, so the registry would not be the same everywhere."},
		{RuleNotText, "not UTF-8 text", "A CUE file holds UTF-8 text without NUL bytes."},
		{RuleBOM, "byte order mark", "A CUE file starts with its text, not with a byte order mark."},
		{RuleLFS, "git-LFS pointer", "The file holds a pointer, not the registry: agents read git objects only."},
		{RuleMarkers, "conflict markers", "The file was committed in the middle of a merge."},
		{RuleAttribute, "external reference", "The attributes @embed, @extern, @if, @ignore, @tag and @experiment make a registry depend on something outside it, or mean different things to different readers."},
		{RuleImport, "forbidden import", "A registry imports the schema and the packages strings, net, list, struct, regexp and strconv, nothing else."},
		{RuleModule, "file in cue.mod", "cue.mod holds module.cue and pkg/ only, and stands in the root only; agents use the schema of their binary. module.cue is what plain `cue` reads the registry with: it names a module, and a version of the language that has what the schema needs."},
		{RuleLineEnds, "carriage returns", "Lines end with a line feed alone. With carriage returns a change of one line is a change of every line, and a text of several lines is another value."},
		{RuleSkipped, "file that nobody reads", "CUE reads no file whose name starts with a dot or an underscore, or ends in _test.cue or _tool.cue. The host or the service web_test stands in web_test.entry.cue. Below hosts/ and services/ such a file is most likely meant; it is a warning."},
		{RuleFileSize, "file too large", "A registry file has at most 256 KiB."},
		{RuleTotalSize, "registry too large", "The files of a registry have at most 64 MiB together."},
		{RuleFileCount, "too many files", "A registry has at most 200,000 files."},
		{RuleDepth, "nested too deep", "Values nest at most 64 deep; every label of a chain such as a: b: c counts."},
		{RuleNodes, "file too complex", "A file has at most 50,000 syntax nodes; split it."},
		{RuleFields, "too many fields", "One struct or list literal has at most 5,000 entries; split it over files."},
		{RuleMoreResults, "more findings", "Only the first 100 findings are listed; correct them and run again."},
		{RuleDocument, "compiled document too large", "The compiled document of a registry has at most 12 MiB: every host of the fleet holds it in memory and on disk."},
		{RuleValue, "wrong value", "The value is not one that the schema permits for this field."},
		{RuleUnknown, "unknown field", "The schema is closed: a field that it does not declare is refused, so that a misspelt one is never silently without effect."},
		{RuleRetired, "retired field", "The field existed once and has no effect any more; the sentence says what stands in its place."},
		{RuleSyntax, "syntax error", "The file is not CUE, or names something that does not exist."},
		{RuleIncomplete, "incomplete value", "A registry is data: every value is concrete after evaluation."},
		{RuleMissing, "missing field", "A required field is not given."},
		{RuleConflict, "conflicting values", "Two declarations give one field different values; a value is set in one place."},
		{RulePackage, "wrong package", "Every registry file says `package fleet`; only the files below policies/ are another package."},
		{RuleOtherLeaf, "host or service file reads another one", "A file of one host or one service may use its own fields and what shared files define: it is evaluated without the other hosts and services."},
		{RuleOutside, "field outside registry", "A top-level field other than `registry` is not part of the registry; start its name with _ or # if it is a template."},
		{RuleRepeated, "field given twice", "One file gives a field twice with one value, as a merge does that kept both sides. CUE takes it, and the next change of one of them is a conflict."},
	}
}
