package policies

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"stado.internal/stado/fleet"
	"stado.internal/stado/schema"
)

// authority judges a change of the authority: it comes alone but for the generation, and its epoch counts it. Where other commits may
// lie between, all that can be said is that the epoch rises if the authority changes, and does not fall.
func (j *judge) authority() {
	before, after := j.previous.Registry.Directory.Authority, j.next.Registry.Directory.Authority
	held, offered := before.Epoch, after.Epoch
	before.Epoch, after.Epoch = 0, 0
	moved := before != after
	at := j.at(authorityPath)
	if j.next.Gap >= GapMerged {
		if offered < held || moved && offered == held {
			j.refuse(RuleEpoch, at, authorityPath+".epoch", sayEpochBehind(offered, held), hintEpochBehind)
		}
		return
	}
	if !moved && offered == held {
		return
	}
	switch at := j.at(authorityPath + ".epoch"); {
	case after == (fleet.Authority{}):
		j.refuse(RuleEpoch, at, authorityPath, sayAuthorityRemoved(held), hintAuthorityRemoved(held+1))
	case !moved:
		j.refuse(RuleEpoch, at, authorityPath+".epoch", sayEpochAlone(held, offered), hintEpochAlone(held))
	case offered != held+1:
		j.refuse(RuleEpoch, at, authorityPath+".epoch", sayEpoch(held, offered), hintEpoch(held+1))
	}
	if others := changed(j.previous.Document, j.next.Document); len(others) > 0 {
		j.refuse(RuleAuthorityAlone, at, authorityPath, sayAuthorityAlone(others), hintAuthorityAlone)
	}
}

// changed lists what two documents differ in, apart from the generation and the authority: hosts and services one by one, all else by
// its name at the top, in lexical order of their field paths.
func changed(previous, next []byte) []string {
	before, after := parts(previous), parts(next)
	var out []string
	for p := range before {
		if !bytes.Equal(before[p], after[p]) {
			out = append(out, p)
		}
	}
	for p := range after {
		if _, both := before[p]; !both {
			out = append(out, p)
		}
	}
	slices.Sort(out)
	return out
}

// parts takes a document apart. It is canonical JSON, so equal parts have equal bytes. A document that cannot be read has no part in
// common with another one, so that it never passes for an unchanged one.
func parts(document []byte) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	top := object(document)
	directory := object(top["service_directory"])
	for name, raw := range object(top["hosts"]) {
		out[schema.FieldPath("hosts", name)] = raw
	}
	for name, raw := range object(directory["services"]) {
		out[schema.FieldPath("service_directory", "services", name)] = raw
	}
	for _, known := range []string{"hosts", "service_directory"} {
		delete(top, known)
	}
	for _, known := range []string{"services", "generation", "authority"} {
		delete(directory, known)
	}
	for name, raw := range directory {
		out[schema.FieldPath("service_directory", name)] = raw
	}
	maps.Copy(out, top)
	return out
}

func object(raw []byte) map[string]json.RawMessage {
	out := map[string]json.RawMessage{}
	if len(raw) == 0 {
		return out
	}
	if err := json.Unmarshal(raw, &out); err != nil {
		return map[string]json.RawMessage{string(raw): raw}
	}
	return out
}
