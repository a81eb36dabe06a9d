package schema

import (
	"path"
	"slices"
	"strings"

	"stado.internal/stado/fleet"
)

// The files that own one part of the registry, and nothing else.
const (
	generationFile = "generation.cue"
	authorityFile  = "authority.cue"
)

// owner is what a file may give, by its path. Files below hosts/ and services/ own the host or the service that they are named for,
// generation.cue and authority.cue what their names say, and every other file, a shared one, all the rest.
type owner struct {
	kind, name string // hostsLabel or servicesLabel and the entry; generationFile or authorityFile; both empty for a shared file
}

func ownerOf(file string) owner {
	top, _, nested := strings.Cut(file, "/")
	switch {
	case nested && (top == hostsLabel || top == servicesLabel):
		return owner{top, EntryName(path.Base(file))}
	case file == generationFile, file == authorityFile:
		return owner{kind: file}
	}
	return owner{}
}

func (o owner) shared() bool { return o.kind == "" }

// owns reports whether field labels, from the registry on, lie in what the file owns.
func (o owner) owns(labels []string) bool {
	switch o.kind {
	case hostsLabel, servicesLabel:
		own := leaf{kind: o.kind, name: o.name}.path()
		return len(labels) >= len(own) && slices.Equal(labels[:len(own)], own)
	case generationFile:
		return slices.Equal(labels, []string{directoryLabel, "generation"})
	case authorityFile:
		return len(labels) > 1 && labels[0] == directoryLabel && labels[1] == "authority"
	}
	return ownerPath(labels) == ""
}

// Owner is the file that alone may give a field; empty when any shared file may. entries says that it holds parts with owners of their own.
func Owner(fieldPath string) (file string, entries bool) {
	labels, err := fleet.SplitFieldPath(fieldPath)
	if err != nil {
		return "", false
	}
	switch FieldPath(labels...) {
	case hostsLabel, directoryLabel, directoryLabel + "." + servicesLabel:
		return "", true
	}
	return ownerPath(labels), false
}

// Owns reports whether a file is the one that [Owner] names, which may lie at any depth below its directory.
func Owns(owner, file string) bool { return owner != "" && ownerOf(owner) == ownerOf(file) }

// ownerPath is the file that alone may give a field; empty when any shared file may.
func ownerPath(labels []string) string {
	switch {
	case len(labels) > 1 && labels[0] == hostsLabel:
		return hostsLabel + "/" + EntryFile(labels[1])
	case len(labels) > 2 && labels[0] == directoryLabel && labels[1] == servicesLabel:
		return servicesLabel + "/" + EntryFile(labels[2])
	case len(labels) > 1 && labels[0] == directoryLabel && labels[1] == "generation":
		return generationFile
	case len(labels) > 1 && labels[0] == directoryLabel && labels[1] == "authority":
		return authorityFile
	}
	return ""
}

// entrySuffix stands after a name that the cue command would take for something else: it reads no file x_test.cue or x_tool.cue. A name that
// ends in the suffix itself gets another one, so that every file is that of one name.
const entrySuffix = ".entry"

// EntryFile is the name of the file that declares the host or the service name: every reader skips some of the names name.cue.
func EntryFile(name string) string {
	if skippedName(name) {
		name += entrySuffix
	}
	return name + ".cue"
}

// EntryName is the host or the service that a file of this name declares: the reverse of [EntryFile].
func EntryName(file string) string {
	name := strings.TrimSuffix(file, ".cue")
	if cut, ok := strings.CutSuffix(name, entrySuffix); ok && skippedName(cut) {
		return cut
	}
	return name
}

func skippedName(name string) bool {
	for ; strings.HasSuffix(name, entrySuffix); name = strings.TrimSuffix(name, entrySuffix) {
	}
	return strings.HasSuffix(name, "_test") || strings.HasSuffix(name, "_tool")
}
