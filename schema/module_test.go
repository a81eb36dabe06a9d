package schema

import (
	"strings"
	"testing"
)

// TestModule refuses, with its line, a module file that plain cue could not read; the archives show that cue reads the one which registries have.
func TestModule(t *testing.T) {
	const good = "module: \"fleet.example@v0\"\nlanguage: version: \"v0.14.0\"\n"
	for text, want := range map[string]string{
		good: "",
		"// ours\n" + good + "source: kind: \"git\"\ndescription: \"x\"\ncustom: \"a.example@v0\": x: 1\ndeps: {}\n": "",
		"module: \"fleet.example\"\nlanguage: {version: \"v0.17.0\"}\n":                                              "",
		"":                   "1:1: plain cue could not read the registry: the file does not give module",
		"module: \"f.x@v0\"": "1:1: plain cue could not read the registry: the file does not give language.version",
		"<<<<<<< HEAD\n" + good + "=======\n" + good + ">>>>>>> theirs\n": "1:1: the file holds conflict markers",
		"module: 1\nlanguage: version: \"v0.14.0\"\n":                     "1:1: plain cue could not read the registry: module is a string",
		"module: 'f.x'\nlanguage: version: \"v0.14.0\"\n":                 "1:1: plain cue could not read the registry: module is a string",
		"module: \"f x@v0\"\nlanguage: version: \"v0.14.0\"\n":            "1:1: plain cue could not read the registry: the module has a path",
		"module: \"f.x@v01\"\nlanguage: version: \"v0.14.0\"\n":           "1:1: plain cue could not read the registry: the module's major version",
		"module: \"f.x@0\"\nlanguage: version: \"v0.14.0\"\n":             "1:1: plain cue could not read the registry: the module's major version",
		"module: \"f.x@v0\"\nlanguage: version: \"v0.99.0\"\n":            "2:11: plain cue could not read the registry: language.version is v0.99.0, and the schema is read with v0.14.0 to v0.",
		"module: \"f.x@v0\"\nlanguage: version: \"v0.13.9\"\n":            "2:11: plain cue could not read the registry: language.version is v0.13.9",
		"module: \"f.x@v0\"\nlanguage: version: \"v0.14\"\n":              "2:11: plain cue could not read the registry: language.version is a version",
		"module: \"f.x@v0\"\nlanguage: \"v0.14.0\"\n":                     "2:1: plain cue could not read the registry: language is a struct",
		good + "deps: \"a.example/b@v0\": v: \"v0.1.0\"\n":                "3:1: plain cue could not read the registry: a registry has no dependencies",
		good + "source: kind: \"x\"\n":                                    "3:9: plain cue could not read the registry: source.kind",
		good + "other: 1\n":                                               "3:1: plain cue could not read the registry: cue knows no field other",
		good + "description: module\n":                                    "3:1: plain cue could not read the registry: it is data",
		good + "module: \"fleet.example@v0\"\n":                           "3:1: `module` is set twice, here and at cue.mod/module.cue:1:1",
		"package fleet\n" + good:                                          "1:1: plain cue could not read the registry: it is data",
		good + "}":                                                        "3:1: ",
	} {
		got := Compile(withBase([]File{{ModuleFile, []byte(text)}}), Options{})
		switch {
		case want == "" && (got.Document == nil || len(got.Findings) > 0):
			t.Errorf("%q is refused: %v", text, got.Findings)
		case want != "" && (got.Document != nil || len(got.Findings) == 0):
			t.Errorf("%q is admitted", text)
		case want != "":
			f := got.Findings[0]
			line := strings.TrimPrefix(f.Position(), ModuleFile+":") + ": " + f.Message
			if !strings.HasPrefix(line, want) {
				t.Errorf("%q: got %s, want %s", text, line, want)
			}
		}
	}
}
