package source

import (
	"context"
	"path/filepath"

	"stado.internal/stado/fleet"
	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// Trace says who gives a field its value in the CUE files below a directory, and what constrains it. What is wrong with the files or the
// path is in the findings; errors are as for [Evaluator.WorkTree].
func (e Evaluator) Trace(ctx context.Context, dir, fieldPath string) (schema.Trace, fleet.Findings, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return schema.Trace{}, nil, &Error{Phase: PhaseRead, Remote: dir, Kind: KindNotFound, Cause: err.Error(), Err: err}
	}
	var last sandbox.Progress
	var reply traceReply
	err = e.Runner.Run(ctx, taskTrace, traceRequest{Dir: abs, Path: fieldPath}, &reply, func(p sandbox.Progress) { last = p })
	if finding, ok := verdictOf(err); ok {
		return schema.Trace{}, fleet.Findings{finding}, nil
	}
	if err != nil {
		return schema.Trace{}, nil, asError(err, abs, last)
	}
	return reply.Trace, reply.Findings, nil
}

type traceRequest struct {
	Dir  string `json:"dir"`
	Path string `json:"path"`
}

type traceReply struct {
	Trace    schema.Trace   `json:"trace"`
	Findings fleet.Findings `json:"findings,omitempty"`
}

func trace(_ context.Context, r traceRequest, p func(sandbox.Progress)) (traceReply, error) {
	files, findings, err := readDir(r.Dir, p)
	if err != nil {
		return traceReply{}, localFailure(err, r.Dir)
	}
	if len(findings) > 0 {
		findings.Sort()
		return traceReply{Findings: findings}, nil
	}
	t, findings := schema.TraceField(files, r.Path, schema.Options{Progress: func(phase, file string) {
		p(sandbox.Progress{Phase: phase, File: file})
	}})
	return traceReply{Trace: t, Findings: findings}, nil
}
