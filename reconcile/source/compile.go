package source

import (
	"context"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/results"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// judgement is what the evaluation of one set of files says.
type judgement struct {
	Document   []byte                     `json:"-"` // canonical; it crosses the pipe beside the JSON
	Digest     string                     `json:"digest,omitempty"`
	Generation fleet.Generation           `json:"generation,omitempty"`
	Findings   fleet.Findings             `json:"findings,omitempty"`
	Positions  map[string]schema.Position `json:"positions,omitempty"`
	Policies   bool                       `json:"policies,omitempty"` // there are policies of the fleet's own
	Counts     schema.Counts              `json:"counts"`
	// GenerationFile is git's name of the content of generation.cue.
	GenerationFile string `json:"generation_file,omitempty"`
	Separate       bool   `json:"separate,omitempty"` // as [schema.Compiled] says
	Bytes          int64  `json:"bytes,omitempty"`    // of all files of a tree, also of those that are not read
}

// Attachment makes a judgement [sandbox.Attached].
func (j *judgement) Attachment() *[]byte { return &j.Document }

// judge compiles files and judges the result by itself. It runs in the child only.
func (e evaluation) judge(set fileSet, cache *results.Cache, p func(sandbox.Progress)) (judgement, error) {
	last := ""
	o := e.options(set, cache)
	o.Progress = func(phase, file string) {
		if file == "" {
			file = last // a phase over everything: the file that was begun last says most
		}
		last = file
		p(sandbox.Progress{Phase: phase, File: file})
	}
	c := schema.Compile(set.files, o)
	if c.Err != nil {
		return judgement{}, c.Err
	}
	if cache != nil {
		_ = cache.Save() // without it the next evaluation takes longer
	}
	c.Findings = append(c.Findings, policies.Check(c)...)
	if c.Registry != nil {
		c.Findings = append(c.Findings, policies.CheckOwn(set.files, c.Document, beginPolicies(p))...)
	}
	c.Findings = schema.Limit(c.Findings)
	j := judgement{
		Document: c.Document, Digest: c.Digest, Findings: c.Findings, Positions: c.Positions, Policies: len(schema.PolicyFiles(set.files)) > 0,
		Counts: c.Counts, Separate: c.Separate, Bytes: set.bytes, GenerationFile: set.ids[schema.GenerationFile],
	}
	if c.Registry != nil {
		j.Generation = c.Registry.Directory.Generation
	}
	return j, nil
}

// compileRequest asks for the verdict on one commit of the store.
type compileRequest struct {
	Store  string `json:"store"`
	Commit string `json:"commit"`
	evaluation
}

// compileReply is a commit's description and its verdict.
type compileReply struct {
	judgement
	Parent   string            `json:"parent,omitempty"`
	Time     time.Time         `json:"time"`
	Author   string            `json:"author"`
	Subject  string            `json:"subject"`
	Trailers map[string]string `json:"trailers,omitempty"`
}

// clean bounds what a child says. A child that evaluates hostile text may itself have become hostile, so its parent does not rely on
// the child's own bounds.
func (r *compileReply) clean() {
	r.Findings = schema.Limit(r.Findings)
	r.cleanDescription()
}

func (r *compileReply) cleanDescription() {
	r.Author, r.Subject = fleet.OneLine(r.Author, maxHeader), fleet.OneLine(r.Subject, maxHeader)
	for key, value := range r.Trailers {
		r.Trailers[key] = fleet.OneLine(value, maxTrailer)
	}
}

// Characters of an author, of a subject, and of a trailer's value.
const (
	maxHeader  = 200
	maxTrailer = 500
)

// stepPositions are the places that judging one step against another speaks of; the rest stays in the child.
func stepPositions(all map[string]schema.Position) map[string]schema.Position {
	out := map[string]schema.Position{}
	for path, p := range all {
		if stepPosition(path) {
			out[path] = p
		}
	}
	return out
}

func stepPosition(path string) bool {
	switch path {
	case "service_directory.generation", "service_directory.authority", "service_directory", "hosts", "policies":
		return true
	}
	return false
}

// describe reads a commit without its files.
func describe(ctx context.Context, r compileRequest) (compileReply, error) {
	st := openStore(r.Store)
	defer func() { _ = st.Close() }() // read only
	c, err := readCommit(st, plumbing.NewHash(r.Commit))
	if err != nil {
		return compileReply{}, storeFailure(ctx, err, PhaseRead)
	}
	return description(c), nil
}

func description(c *object.Commit) compileReply {
	out := compileReply{
		Time:     c.Committer.When,
		Author:   fleet.OneLine(c.Author.Name+" <"+c.Author.Email+">", maxHeader),
		Trailers: trailers(c.Message),
	}
	subject, _, _ := strings.Cut(strings.TrimLeft(c.Message, "\n"), "\n")
	out.Subject = fleet.OneLine(subject, maxHeader)
	if len(c.ParentHashes) > 0 {
		out.Parent = c.ParentHashes[0].String()
	}
	return out
}

// compile reads and judges the files of one commit.
func compile(ctx context.Context, r compileRequest, p func(sandbox.Progress)) (compileReply, error) {
	st := openStore(r.Store)
	defer func() { _ = st.Close() }() // read only
	c, err := readCommit(st, plumbing.NewHash(r.Commit))
	if err != nil {
		return compileReply{}, storeFailure(ctx, err, PhaseRead)
	}
	cache := r.open()
	set, findings, err := treeSet(st, c.TreeHash, cache, p)
	if err != nil {
		return compileReply{}, storeFailure(ctx, err, PhaseRead)
	}
	out := description(c)
	if len(findings) > 0 {
		out.Findings = schema.Limit(findings)
		return out, nil
	}
	if out.judgement, err = r.judge(set, cache, p); err != nil {
		return compileReply{}, storeFailure(ctx, err, PhaseRead)
	}
	out.Positions = stepPositions(out.Positions)
	return out, nil
}

// maxTrailers bounds what one commit may attach.
const maxTrailers = 32

// trailers reads the `Key: value` lines of a message's last paragraph. A paragraph with any other line, and the subject, are prose.
func trailers(message string) map[string]string {
	paragraphs := strings.Split(strings.TrimSpace(strings.ReplaceAll(message, "\r\n", "\n")), "\n\n")
	if len(paragraphs) < 2 {
		return nil
	}
	out := map[string]string{}
	for line := range strings.Lines(paragraphs[len(paragraphs)-1]) {
		key, value, ok := strings.Cut(strings.TrimRight(line, "\n"), ":")
		if !ok || !trailerKey(key) || len(out) == maxTrailers {
			return nil
		}
		out[key] = fleet.OneLine(strings.TrimSpace(value), maxTrailer)
	}
	return out
}

func trailerKey(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-')
	})
}
