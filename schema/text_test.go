package schema

import (
	"bytes"
	"strings"
	"testing"

	"stado.internal/stado/fleet"
)

func TestSetGeneration(t *testing.T) {
	for before, want := range map[string]string{
		"package fleet\n\n// Raise it.\nregistry: service_directory: generation: 41 // now\n": "package fleet\n\n// Raise it.\nregistry: service_directory: generation: 42 // now\n",
		"package fleet\nregistry: {service_directory: {\n\tgeneration:   1_041,\n}}\n":        "package fleet\nregistry: {service_directory: {\n\tgeneration:   42,\n}}\n",
		"package fleet\n\"registry\": \"service_directory\":\n\t\"generation\": 9":            "package fleet\n\"registry\": \"service_directory\":\n\t\"generation\": 42",
		"// ¿generation: 3?\npackage fleet\nregistry: service_directory: generation: 41":      "// ¿generation: 3?\npackage fleet\nregistry: service_directory: generation: 42",
	} {
		got, was, err := SetGeneration(File{"generation.cue", []byte(before)}, 42)
		if err != nil || string(got) != want {
			t.Errorf("%q\n got %q, %v\nwant %q", before, got, err, want)
			continue
		}
		if g, err := Generation(File{"generation.cue", got}); err != nil || g != 42 || was == 42 {
			t.Errorf("%q reads as %d, %v; it was %d", got, g, err, was)
		}
	}
}

func TestSetGenerationRefusals(t *testing.T) {
	const head = "package fleet\n"
	for text, want := range map[string]string{
		head: "generation.cue gives no generation",
		head + "registry: service_directory: generation: _n\n_n: 4\n":                          "generation.cue:2:42 does not give the generation as a plain number",
		head + "registry: service_directory: generation: 41 + 1\n":                             "does not give the generation as a plain number",
		head + "registry: service_directory: generation: *41 | 42\n":                           "does not give the generation as a plain number",
		head + "registry: service_directory: generation: 0x2a\n":                               "does not give the generation as a plain number",
		head + "registry: service_directory: generation: 0\n":                                  "does not give the generation as a plain number",
		head + "registry: service_directory: generation: \"41\"\n":                             "does not give the generation as a plain number",
		head + "registry: service_directory: generation: 9223372036854775808\n":                "gives a generation above 9223372036854775807",
		head + "registry: service_directory: {\n\tgeneration: 41\n\tgeneration: 41\n}\n":       "generation.cue:4:14 gives the generation 2 times",
		head + "<<<<<<< ours\nregistry: service_directory: generation: 41\n=======\n":          "generation.cue:2:1: STADO-",
		head + "registry: service_directory: generation: }\n":                                  "generation.cue:2:42: STADO-SCHEMA-004: ",
		head + "registry: service_directory: _generation: 41\n_registry: service_directory: 1": "gives no generation",
		"\xef\xbb\xbfpackage fleet\nregistry: service_directory: generation: 41\n":             "byte order mark",
		head + "a: " + strings.Repeat("[", 5000):                                               "nests more than",
		strings.Repeat("x", maxFileBytes+1):                                                    "a registry file has at most",
	} {
		if got, _, err := SetGeneration(File{"generation.cue", []byte(text)}, 42); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.80q gives %q, %v; want %q", text, got, err, want)
		}
	}
}

// Formatting keeps the meaning, is done after one pass, and refuses text that is no CUE with its place.
func TestFormat(t *testing.T) {
	for _, a := range archives(t) {
		for _, f := range a.files {
			got, findings := Format(f)
			if findings != nil {
				continue
			}
			again, findings := Format(File{f.Path, got})
			if findings != nil || !bytes.Equal(again, got) {
				t.Errorf("%s: %s is not done after one pass: %v\n%s\n%s", a.name, f.Path, findings, got, again)
			}
		}
		formatted := make([]File, 0, len(a.files))
		for _, f := range a.files {
			if got, findings := Format(f); findings == nil {
				f.Data = got
			}
			formatted = append(formatted, f)
		}
		if was, is := Compile(a.files, Options{}), Compile(formatted, Options{}); was.Digest != is.Digest {
			t.Errorf("%s: the digest was %s, is %s: %v", a.name, was.Digest, is.Digest, is.Findings)
		}
	}
}

func TestFormatRefusals(t *testing.T) {
	for text, want := range map[string]string{
		"a: }":                         "f.cue:1:4",
		"a: 1\n}":                      "f.cue:2:1",
		"a: 1\n>>>>>>> theirs\n":       "f.cue:2:1",
		"a: \"\xff\"":                  "f.cue:1:5",
		"00.M":                         "f.cue",
		"a: " + strings.Repeat("{", 9): "f.cue:",
	} {
		got, findings := Format(File{"f.cue", []byte(text)})
		if got != nil || !findings.Refuses() || !strings.HasPrefix(findings[0].Position(), want) {
			t.Errorf("%q gives %q, %v; want a finding at %s", text, got, findings, want)
		}
	}
}

// FuzzFormat: any text is refused or formatted, and what comes out can be formatted again.
func FuzzFormat(f *testing.F) {
	for _, s := range []string{"a: 1", "package x\n\n// c\na: b: {c: [1,2]}\n", "a: \"\\(b)\"", "#A: {...}\n", "a: 1 // x", "}", "let x = 1", "00.M"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		out, findings := Format(File{"f.cue", []byte(s)})
		if (out == nil) == (findings == nil) && s != "" && len(strings.TrimSpace(s)) > 0 {
			t.Fatalf("%q gives %q and %v", s, out, findings)
		}
		if findings == nil {
			if _, again := Format(File{"f.cue", out}); again != nil {
				t.Fatalf("%q becomes %q, which is refused: %v", s, out, again)
			}
		}
		if g, err := Generation(File{"f.cue", []byte(s)}); err == nil && (g == 0 || g > MaxGeneration) {
			t.Fatalf("%q gives generation %d", s, g)
		}
	})
}

// The highest generation is the schema's own.
func TestMaxGeneration(t *testing.T) {
	for text, ok := range map[string]bool{"9223372036854775807": true, "9223372036854775808": false} {
		c := Compile([]File{baseFiles[0], baseFiles[1], {"generation.cue", []byte("package fleet\n\nregistry: service_directory: generation: " + text + "\n")}}, Options{})
		if (c.Registry != nil) != ok || ok && c.Registry.Directory.Generation != fleet.Generation(MaxGeneration) {
			t.Errorf("%s: %v", text, c.Findings)
		}
	}
}
