package main

import (
	"os"
	"path/filepath"
	"strings"

	"stado.internal/stado/reconcile/source"
)

// localRepository is the repository that a directory lies in, with the environment of this process but for what binds git to another
// repository or directory. The index that git names to its hooks stays: when only some files are committed it is not the usual one. Its
// name is relative to where the hook was started.
func localRepository(dir string) (source.Repository, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return source.Repository{}, err
	}
	var env []string
	for _, v := range os.Environ() {
		name, value, _ := strings.Cut(v, "=")
		switch name {
		case "GIT_DIR", "GIT_WORK_TREE", "GIT_PREFIX", "GIT_COMMON_DIR":
			continue
		case "GIT_INDEX_FILE":
			if value, err = filepath.Abs(value); err != nil {
				return source.Repository{}, err
			}
			v = name + "=" + value
		}
		env = append(env, v)
	}
	return source.Repository{Dir: dir, Env: env}, nil
}
