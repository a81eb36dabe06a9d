package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"
)

type versionInfo struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go"`
	CUE     string `json:"cue"`
	OS      string `json:"os"`
	Arch    string `json:"arch"`
}

// readVersion takes the version from the build itself, so no link flags are needed.
func readVersion() versionInfo {
	v := versionInfo{Version: "devel", Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if m := info.Main.Version; m != "" && m != "(devel)" {
		v.Version = m
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	for _, d := range info.Deps {
		if d.Path == "cuelang.org/go" {
			v.CUE = d.Version
		}
	}
	return v
}

func newVersion(a *app) *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use: "version", Short: "Print the version of this program and of its evaluator", Args: cobra.NoArgs,
		Example: "  stado version --json",
		RunE: func(*cobra.Command, []string) error {
			v := readVersion()
			if asJSON {
				return a.printJSON(v)
			}
			fmt.Fprintf(a.stdout, "stado %s (%s %s/%s, cue %s)\n", v.Version, v.Go, v.OS, v.Arch, v.CUE)
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
