package source

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// CopyStore copies a store of ours, or as much of it as can be read, to a directory that does not exist, for whoever asks a remote
// beside a running agent: the copy's lock is its own, and what the store has need not be sent again. A store is a cache, so one that
// is missing, or changes meanwhile, only makes the copy poorer. The error is about the copy.
func CopyStore(from, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return err
	}
	for _, part := range []string{"HEAD", "config", "packed-refs", "refs", "objects"} {
		err := filepath.WalkDir(filepath.Join(from, part), func(path string, d fs.DirEntry, err error) error {
			if errors.Is(err, fs.ErrNotExist) || err == nil && (d.IsDir() || !d.Type().IsRegular() || strings.HasPrefix(d.Name(), "tmp_")) {
				return nil
			}
			if err != nil {
				return err
			}
			rel, err := filepath.Rel(from, path)
			if err != nil {
				return err
			}
			return copyFile(path, filepath.Join(to, rel))
		})
		if err != nil {
			return fmt.Errorf("cannot copy the store %s: %w", from, err)
		}
	}
	return nil
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // read only
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
