package main

import (
	"testing"

	"stado.internal/stado/agent/status"
)

// A repository that is read in the place of a silent authority is not refused.
func TestUpRefusal(t *testing.T) {
	t.Parallel()
	silent := status.Authority{Reachable: new(false), Detail: "it is silent"}
	instead := silent
	instead.ReadFrom = "file:///srv/fleet"
	for want, st := range map[string]status.Resolver{
		"":                {Authority: instead},
		"it is silent":    {Authority: silent},
		"fork refused: …": {Authority: instead, Refusals: []status.Refusal{{Sentence: "fork refused: …"}}},
	} {
		if got := upRefusal(st); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
