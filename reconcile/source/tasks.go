package source

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"

	"stado.internal/stado/reconcile/sandbox"
	"stado.internal/stado/schema"
)

// The tasks of the child, by name.
const (
	taskList     = "source.list"
	taskFetch    = "source.fetch"
	taskWalk     = "source.walk"
	taskDescribe = "source.describe"
	taskCompile  = "source.compile"
	taskRevision = "source.revision"
	taskWorkTree = "source.work-tree"
	taskPolicies = "source.policies"
	taskFiles    = "source.files"
	taskTrace    = "source.trace"
	taskBundle   = "source.bundle"
	taskVouch    = "source.vouch"
)

// Tasks are what the child can do for this package; the hidden verb of the command line gives them to [sandbox.Serve].
func Tasks() map[string]sandbox.Task {
	changes, kept := sync.OnceValue(schema.NewChanges), &shelf{} // of this process, which does one task after the other
	return map[string]sandbox.Task{
		taskList: task(list),
		taskFetch: task(func(ctx context.Context, r fetchRequest, p func(sandbox.Progress)) (fetchReply, error) {
			return fetch(ctx, r, kept, changes, p)
		}),
		taskWalk: task(func(ctx context.Context, r walkRequest, _ func(sandbox.Progress)) (walkReply, error) {
			return walk(ctx, r)
		}),
		taskDescribe: task(func(ctx context.Context, r compileRequest, _ func(sandbox.Progress)) (compileReply, error) {
			return describe(ctx, r)
		}),
		taskCompile:  task(compile),
		taskRevision: task(revision),
		taskWorkTree: task(workTree),
		taskPolicies: task(judgePolicies),
		taskFiles:    task(givenFiles),
		taskTrace:    task(trace),
		taskBundle:   task(bundle),
		taskVouch: task(func(ctx context.Context, r vouchRequest, _ func(sandbox.Progress)) (vouchReply, error) {
			return vouch(ctx, r)
		}),
	}
}

// task gives a typed function the sandbox's form.
func task[Request, Reply any](f func(context.Context, Request, func(sandbox.Progress)) (Reply, error)) sandbox.Task {
	return func(ctx context.Context, raw json.RawMessage, p func(sandbox.Progress)) (any, error) {
		var r Request
		if err := json.Unmarshal(raw, &r); err != nil {
			return nil, fmt.Errorf("cannot read the request: %w", err)
		}
		reply, err := f(ctx, r, p)
		return &reply, err
	}
}
