package change

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"

	"stado.internal/stado/fleet"
	"stado.internal/stado/policies"
	"stado.internal/stado/reconcile/source"
)

// judge lays the result out in a directory of its own and asks the evaluator, as `stado vet --base` would.
func (o Options) judge(ctx context.Context, scratch string, d *Draft, changed map[string][]byte) (*fleet.Registry, source.Verdict, error) {
	tree := filepath.Join(scratch, "tree")
	if err := layOut(tree, d.result(changed)); err != nil {
		return nil, source.Verdict{}, fmt.Errorf("cannot lay out the registry to judge it: %w", err)
	}
	v, err := o.Evaluator.WorkTree(ctx, tree)
	if err != nil {
		return nil, source.Verdict{}, err
	}
	if v.Document == nil {
		return nil, source.Verdict{}, &RefusedError{Message: sayResultRefused, Findings: v.Findings}
	}
	next, err := fleet.Decode(v.Document)
	if err != nil {
		return nil, source.Verdict{}, err
	}
	v.AllowEmptyFleet, v.TakesNumber = o.AllowEmptyFleet, source.TakesNumber(d.Subject.Kind)
	judged, err := o.Evaluator.Judge(ctx, o.Dir, d.verdict, v)
	if err != nil {
		return nil, source.Verdict{}, err
	}
	for i := range judged {
		if judged[i].Rule == policies.RuleEmptyFleet {
			judged[i].Hint = hintEmptyFleet
		}
	}
	if findings := policies.Together(v.Findings, judged); findings.Refuses() {
		return nil, source.Verdict{}, &RefusedError{Message: sayResultRefused, Findings: findings}
	}
	return next, v, nil
}

// layOut writes files below a new directory. Their names come from a commit: none may lead out of it.
func layOut(dir string, files map[string][]byte) (err error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, root.Close()) }()
	for name, data := range files {
		if parent := path.Dir(name); parent != "." {
			if err := root.MkdirAll(parent, 0o700); err != nil {
				return err
			}
		}
		if err := root.WriteFile(name, data, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// unified is the difference of the changed files as git words it.
func unified(ctx context.Context, scratch string, base, changed map[string][]byte) (string, error) {
	before, after := map[string][]byte{}, map[string][]byte{}
	for name, data := range changed {
		if old, ok := base[name]; ok {
			before[name] = old
		}
		if data != nil {
			after[name] = data
		}
	}
	// The names of the directories become the customary prefixes.
	if err := errors.Join(layOut(filepath.Join(scratch, "a"), before), layOut(filepath.Join(scratch, "b"), after)); err != nil {
		return "", fmt.Errorf("cannot compare the files: %w", err)
	}
	out, err := runner{dir: scratch}.run(ctx, nil, "-c", "core.quotePath=false", "diff", "--no-index", "--no-prefix", "--no-renames",
		"--no-color", "--no-ext-diff", "--no-textconv", "--unified=3", "--", "a", "b")
	var differs *gitError
	if errors.As(err, &differs) && differs.code == 1 { // as diff does when there is a difference
		return differs.stdout, nil
	}
	return string(out), err
}
