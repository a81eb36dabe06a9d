package schema

import (
	"fmt"
	"strings"

	"stado.internal/stado/fleet"
)

// The sentences of this package. A finding's message says what is refused; its hint says what to do.

func sayFileSize(size int) string {
	return fmt.Sprintf("the file has %d bytes; a registry file has at most %d", size, maxFileBytes)
}

func sayTotalSize(size int) string {
	return fmt.Sprintf("the files of the registry have %d bytes together; at most %d are read", size, maxTotalBytes)
}

func sayFileCount(n int) string {
	return fmt.Sprintf("the registry has %d files; at most %d are read", n, maxFiles)
}

func sayDocument(size, largest int) string {
	return fmt.Sprintf("the compiled document has %d bytes; at most %d are served", size, largest)
}

func sayUnsafePath(why string) string { return "unsafe path: " + why }

func sayCaseFold(p, other string) string {
	return fmt.Sprintf("unsafe path: %s and %s differ by case only", p, other)
}

func sayModule(why string) string { return "plain cue could not read the registry: " + why }

func sayRepeated(label, first string) string {
	return fmt.Sprintf("`%s` is set twice, here and at %s", label, first)
}

func saySkipped(why string) string {
	return "nobody reads the file, so that what it declares is not in the registry: " + why
}

func hintSkipped(name string) string {
	return fmt.Sprintf("rename it to %s, or move what is not registry out of %s/ and %s/", name, hostsLabel, servicesLabel)
}

func sayAttribute(name string) string {
	return fmt.Sprintf("external reference: the attribute @%s makes the registry depend on something outside it", name)
}

func sayImport(p string) string {
	return fmt.Sprintf("external reference: the import of %q is not allowed in a registry", p)
}

func sayDepth() string  { return fmt.Sprintf("the value nests more than %d deep", maxDepth) }
func sayNodes() string  { return fmt.Sprintf("the file has more than %d syntax nodes", maxNodes) }
func sayFields() string { return fmt.Sprintf("one literal has more than %d entries", maxFields) }

func sayPackage(name, want string) string {
	if name == "" {
		return "the file has no package clause"
	}
	if want != packageName {
		return fmt.Sprintf("the file is of package %s; a file below %s/ is of package %s", name, want, want)
	}
	return fmt.Sprintf("the file is of package %s; a registry file is of package %s", name, packageName)
}

func hintPackage(want string) string {
	return fmt.Sprintf("write `package %s` in its first line", want)
}

func sayUnknown(label string) string { return fmt.Sprintf("unknown field `%s`", label) }

func hintUnknown(near string, known []string) string {
	switch {
	case near != "":
		return fmt.Sprintf("did you mean `%s`?", near)
	case len(known) == 0:
		return "remove it"
	}
	return "the fields here are " + strings.Join(known, ", ")
}

func sayMissing(fieldPath string) string {
	return fmt.Sprintf("the required field `%s` is missing", lastLabel(fieldPath))
}

func sayNoGeneration() string {
	return fmt.Sprintf("the registry has no generation: `%s` is missing", generationPath)
}

func sayIncomplete(fieldPath, value string) string {
	return fmt.Sprintf("`%s` is not concrete: %s", lastLabel(fieldPath), value)
}

func sayAlsoSet(others []string) string { return "also set at " + strings.Join(others, ", ") }

func sayBindClash(bind, a, b string) string {
	return fmt.Sprintf("two listeners of this host are on bind %s: %s and %s", bind, a, b)
}

func sayOtherLeaf(reference string) string {
	return fmt.Sprintf("the file reads %s, which another host or service file defines", reference)
}

func sayOutside(label string) string {
	return fmt.Sprintf("the top-level field `%s` is not part of the registry", label)
}

func sayMore(n int) string {
	return fmt.Sprintf("%d more findings are not listed", n)
}

func sayRender(err error) string { return "cannot render the compiled document: " + err.Error() }

func sayUnformattable(worse fleet.Finding) string {
	return fmt.Sprintf("the canonical form of the file is no CUE: %s in its line %d", worse.Message, worse.Line)
}

func sayInternal(what any) string {
	return fmt.Sprintf("the CUE evaluator failed on this registry: %v", what)
}

const (
	hintUnformattable = "write what stands there in the usual way, numbers without leading zeros, and format again"
	hintSplit         = "split it over several files"
	hintDocument      = "look for a comprehension or a template that repeats more than it should"
	hintLFS           = "commit the file itself: git lfs untrack '*.cue', then git add --renormalize ."
	hintBOM           = "save the file as UTF-8 without a byte order mark"
	hintLineEnds      = "save the file with Unix line ends: sed -i 's/\\r$//' FILE, and git config core.autocrlf input"
	hintText          = "save the file as UTF-8 text"
	hintRename        = "rename one of them"
	hintPath          = "rename it: letters, digits, dots, underscores and hyphens, at most 128 in a name, at most 16 names in a path"
	hintModule        = "keep cue.mod/module.cue and cue.mod/pkg only"
	hintModuleFile    = "write into it: module: \"fleet.example@v0\" and language: version: \"" + languageVersion + "\""
	hintRepeated      = "a merge may have kept both: leave one"
	hintAttribute     = "remove the attribute and write the value itself"
	hintImport        = "a registry may import stado.internal/schema, strings, net, list, struct, regexp and strconv"
	hintFlatten       = "write the value less deeply nested"
	hintBindClash     = "give one of them another bind"
	hintOtherLeaf     = "move the common value to a definition (#…) in a shared file and let both files use it"
	hintOutside       = "write it under `registry:`, or start its name with _ or # if it is a template"
	hintMore          = "correct these and run again"
	hintConcrete      = "write the value itself"
	hintNoGeneration  = "write into generation.cue: registry: service_directory: generation: N, where N is above the number that hosts hold, and 1 in a new fleet"
)

// hintMerge is what to do about a merge that was committed half done. Nobody needs to choose between two generations.
func hintMerge(file string) string {
	if file == generationFile {
		return "take either number and run stado bump --onto origin/main, which raises it above both"
	}
	return "finish the merge and commit the file again"
}

// hintConflict is what to do about two values of one field.
func hintConflict(fieldPath string) string {
	if fieldPath == generationPath {
		return "keep one number and run stado bump --onto origin/main, which raises it above both"
	}
	return "set the value in one place"
}
