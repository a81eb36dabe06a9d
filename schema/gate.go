package schema

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"stado.internal/stado/fleet"
)

// The limits of what is read at all. They keep what parsing and evaluation can cost in proportion to what a fleet needs.
const (
	maxFileBytes  = 256 << 10
	maxTotalBytes = 64 << 20
	maxFiles      = 200_000
	maxComponents = 16
	maxDepth      = 64
	maxNodes      = 50_000
	maxFields     = 5_000

	// MaxDocument is the largest document, in bytes: it bounds what a few lines of comprehensions may become. 10,000 hosts need two thirds of it.
	MaxDocument = 12 << 20
)

const (
	policiesDir = "policies"
	modDir      = "cue.mod"
)

var (
	lfsPointer  = []byte("version https://git-lfs.github.com/spec/")
	byteOrder   = []byte("\xef\xbb\xbf")
	mergeMarker = regexp.MustCompile(`(?m)^(<{7} |>{7} |\|{7} )`)
)

// gateFiles picks the registry files, sorted by path, and refuses by size, by name and by content, before anything is parsed.
func (c *compiler) gateFiles(files []File) []File {
	if len(files) > maxFiles {
		c.findings.add(hinted(refusal(RuleFileCount, Position{}, "", sayFileCount(len(files))), "remove what is not part of the registry"))
		return nil
	}
	var cueFiles []File
	c.known = map[string]source{}
	total := 0
	for _, f := range files {
		if !strings.HasSuffix(f.Path, ".cue") {
			continue
		}
		if s, size, ok := c.recall(f); ok {
			c.known[f.Path] = s
			total += size
			cueFiles = append(cueFiles, f)
			continue
		}
		c.begin(phaseGate, f.Path)
		if f.Data == nil && c.options.Read != nil {
			if f.Data, c.err = c.options.Read(f.Path); c.err != nil {
				return nil
			}
		}
		total += len(f.Data)
		if len(f.Data) > maxFileBytes {
			c.findings.add(hinted(refusal(RuleFileSize, Position{File: f.Path}, "", sayFileSize(len(f.Data))), hintSplit))
		}
		cueFiles = append(cueFiles, f)
	}
	if total > maxTotalBytes {
		c.findings.add(hinted(refusal(RuleTotalSize, Position{}, "", sayTotalSize(total)), "remove what is not part of the registry"))
	}
	slices.SortStableFunc(cueFiles, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	c.findings.add(gateNames(cueFiles)...)
	if c.findings.refuses() {
		return nil
	}
	for _, f := range cueFiles {
		if f.Path == ModuleFile {
			c.findings.add(moduleFindings(f)...)
		}
	}
	cueFiles = slices.DeleteFunc(cueFiles, func(f File) bool { return c.skips(f.Path) })
	for _, f := range cueFiles {
		if finding, bad := gateText(f); bad {
			c.findings.add(finding)
		}
	}
	return cueFiles
}

// skips is [skipped], with a warning about a file that stands where hosts and services are declared.
func (c *compiler) skips(p string) bool {
	if !skipped(p) {
		return false
	}
	if top, _, nested := strings.Cut(p, "/"); nested && (top == hostsLabel || top == servicesLabel) {
		why, name := unread(p)
		warning := hinted(refusal(RuleSkipped, Position{File: p}, "", saySkipped(why)), hintSkipped(name))
		warning.Severity = fleet.SeverityWarning
		c.findings.add(warning)
	}
	return true
}

// unread says why CUE skips a file, and what to call it instead.
func unread(p string) (why, name string) {
	if hidden(p) {
		for part := range strings.SplitSeq(p, "/") {
			name = path.Join(name, strings.TrimLeft(part, "._"))
		}
		dir, base := path.Split(name)
		return "a name in its path starts with a dot or an underscore", dir + EntryFile(EntryName(base))
	}
	dir, base := path.Split(p)
	return "its name ends in _test.cue or _tool.cue", dir + EntryFile(strings.TrimSuffix(base, ".cue"))
}

// skipped reports whether a file is no part of the package: what the cue command skips, the module's own directory, the policies.
func skipped(p string) bool {
	top, _, nested := strings.Cut(p, "/")
	if nested && (top == modDir || top == policiesDir) || hidden(p) {
		return true
	}
	return strings.HasSuffix(p, "_tool.cue") || strings.HasSuffix(p, "_test.cue")
}

// hidden reports whether a file, or a directory above it, starts with a dot or an underscore: the cue command looks at neither.
func hidden(p string) bool {
	for part := range strings.SplitSeq(p, "/") {
		if strings.HasPrefix(part, "_") || strings.HasPrefix(part, ".") {
			return true
		}
	}
	return false
}

func gateNames(files []File) []fleet.Finding {
	var out []fleet.Finding
	folded := map[string]string{}
	for i, f := range files {
		at := Position{File: f.Path}
		if why := unsafePath(f.Path); why != "" {
			at.File = fmt.Sprintf("%q", f.Path)
			at.File = at.File[1 : len(at.File)-1]
			out = append(out, hinted(refusal(RulePath, at, "", sayUnsafePath(why)), hintPath))
			continue
		}
		if hidden(f.Path) {
			continue
		}
		if i > 0 && files[i-1].Path == f.Path {
			out = append(out, hinted(refusal(RulePath, at, "", sayUnsafePath("it is given twice")), hintRename))
			continue
		}
		if strayModule(f.Path) {
			out = append(out, hinted(refusal(RuleModule, at, "", "the file is in cue.mod, where it could change what a registry means"), hintModule))
			continue
		}
		for p := f.Path; p != ""; p = p[:max(0, strings.LastIndexByte(p, '/'))] {
			lower := strings.ToLower(p)
			if other, ok := folded[lower]; ok && other != p {
				out = append(out, hinted(refusal(RuleCaseFold, at, "", sayCaseFold(p, other)), hintRename))
				break
			}
			folded[lower] = p
		}
	}
	return out
}

// unsafePath says what is wrong with a path, "" for nothing. Files that the cue command skips by name may start with a dot or an
// underscore, but no path leaves the repository.
func unsafePath(p string) string {
	parts := strings.Split(p, "/")
	if len(parts) > maxComponents {
		return fmt.Sprintf("it has %d components, more than %d", len(parts), maxComponents)
	}
	for _, part := range parts {
		if part == "" || part == "." || part == ".." {
			return "it is not a clean path inside the repository"
		}
		if !component(strings.TrimLeft(part, "._")) {
			return fmt.Sprintf("the name %q is not made of letters, digits, dots, underscores and hyphens", part)
		}
	}
	return ""
}

// component reports whether a name is ^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$.
func component(name string) bool {
	for i := range len(name) {
		c := name[i]
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9') && (i == 0 || c != '.' && c != '_' && c != '-') {
			return false
		}
	}
	return name != "" && len(name) <= 128
}

func strayModule(p string) bool {
	parts := strings.Split(p, "/")
	i := slices.Index(parts[:len(parts)-1], modDir)
	return i > 0 || i == 0 && p != ModuleFile && parts[1] != "pkg"
}

// gateText refuses content that is no CUE text, by the name of what it is.
func gateText(f File) (fleet.Finding, bool) {
	at := Position{File: f.Path, Line: 1, Column: 1}
	switch {
	case bytes.HasPrefix(f.Data, lfsPointer):
		return hinted(refusal(RuleLFS, at, "", "the file is a git-LFS pointer, not the registry file itself"), hintLFS), true
	case bytes.HasPrefix(f.Data, byteOrder):
		return hinted(refusal(RuleBOM, at, "", "the file starts with a byte order mark"), hintBOM), true
	}
	if i := bytes.IndexByte(f.Data, 0); i >= 0 {
		return hinted(refusal(RuleNotText, offsetPosition(f, i), "", "the file holds a NUL byte"), hintText), true
	}
	if !utf8.Valid(f.Data) {
		i := 0
		for i < len(f.Data) {
			r, n := utf8.DecodeRune(f.Data[i:])
			if r == utf8.RuneError && n <= 1 {
				break
			}
			i += n
		}
		return hinted(refusal(RuleNotText, offsetPosition(f, i), "", "the file is not valid UTF-8"), hintText), true
	}
	if i := bytes.IndexByte(f.Data, '\r'); i >= 0 {
		return hinted(refusal(RuleLineEnds, offsetPosition(f, i), "", "the file holds a carriage return"), hintLineEnds), true
	}
	if m := mergeMarker.FindIndex(f.Data); m != nil {
		return hinted(refusal(RuleMarkers, offsetPosition(f, m[0]), "", "the file holds conflict markers"), hintMerge(f.Path)), true
	}
	return fleet.Finding{}, false
}

func offsetPosition(f File, offset int) Position {
	before := f.Data[:offset]
	return Position{
		File: f.Path, Line: 1 + bytes.Count(before, []byte("\n")),
		Column: offset - bytes.LastIndexByte(before, '\n'),
	}
}
