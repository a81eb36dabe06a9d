package source

import (
	"bufio"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// openObjects opens the repository whose own files are in dir. It reads nothing yet.
func openObjects(dir billy.Filesystem) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(indexFiles{dir}, cache.NewObjectLRU(cacheBytes), filesystem.Options{KeepDescriptors: true})
}

// indexFiles is a file system in which the index of a pack is read and written in pieces of some KiB. The library takes four bytes at a
// time, which for a store of many small packs is most of what reading it costs.
type indexFiles struct{ billy.Filesystem }

// Capabilities implements [billy.Capable].
func (f indexFiles) Capabilities() billy.Capability { return billy.Capabilities(f.Filesystem) }

// Chmod implements [billy.Chmod].
func (f indexFiles) Chmod(name string, mode os.FileMode) error {
	to, ok := f.Filesystem.(billy.Chmod)
	if !ok {
		return errors.ErrUnsupported
	}
	return to.Chmod(name, mode)
}

// Open implements [billy.Filesystem].
func (f indexFiles) Open(name string) (billy.File, error) {
	file, err := f.Filesystem.Open(name)
	if err != nil || !strings.HasSuffix(name, ".idx") {
		return file, err
	}
	return &indexReader{File: file, in: bufio.NewReader(file), stat: func() (fs.FileInfo, error) { return f.Filesystem.Stat(name) }}, nil
}

// Create implements [billy.Filesystem].
func (f indexFiles) Create(name string) (billy.File, error) {
	file, err := f.Filesystem.Create(name)
	if err != nil || !strings.HasSuffix(name, ".idx") {
		return file, err
	}
	return &indexWriter{File: file, out: bufio.NewWriter(file)}, nil
}

// indexReader is read from its start to its end; the library compares its size with what it says that it holds.
type indexReader struct {
	billy.File
	in   io.Reader
	stat func() (fs.FileInfo, error)
}

func (r *indexReader) Read(p []byte) (int, error) { return r.in.Read(p) }

// Stat tells the file's size.
func (r *indexReader) Stat() (fs.FileInfo, error) { return r.stat() }

// Seek is not what an index is read with.
func (r *indexReader) Seek(int64, int) (int64, error) { return 0, errors.ErrUnsupported }

// indexWriter is written from its start to its end.
type indexWriter struct {
	billy.File
	out *bufio.Writer
}

// Seek is not what an index is written with.
func (w *indexWriter) Seek(int64, int) (int64, error) { return 0, errors.ErrUnsupported }

func (w *indexWriter) Write(p []byte) (int, error) { return w.out.Write(p) }

// Close writes what is left. An index that is not whole on the disk is an error here, as it is of each write otherwise.
func (w *indexWriter) Close() error { return errors.Join(w.out.Flush(), w.File.Close()) }

// ownFiles are the files of a store below root. Nobody but us writes there, so that no name has to be looked at, part by part, for where
// symbolic links lead to, whenever a file is opened.
type ownFiles struct {
	billy.Filesystem
	root string
}

func newOwnFiles(root string) ownFiles { return ownFiles{osfs.New(root, osfs.WithBoundOS()), root} }

// Capabilities implements [billy.Capable].
func (f ownFiles) Capabilities() billy.Capability { return billy.Capabilities(f.Filesystem) }

// Chmod implements [billy.Chmod].
func (f ownFiles) Chmod(name string, mode os.FileMode) error {
	return os.Chmod(filepath.Join(f.root, name), mode)
}

// Open implements [billy.Filesystem].
func (f ownFiles) Open(name string) (billy.File, error) {
	if !filepath.IsLocal(name) {
		return f.Filesystem.Open(name)
	}
	file, err := os.Open(filepath.Join(f.root, name))
	if err != nil {
		return nil, err
	}
	return ownFile{file}, nil
}

// Stat implements [billy.Filesystem].
func (f ownFiles) Stat(name string) (fs.FileInfo, error) {
	if !filepath.IsLocal(name) {
		return f.Filesystem.Stat(name)
	}
	return os.Stat(filepath.Join(f.root, name))
}

// ownFile is read. Whoever writes takes the lock of the whole store.
type ownFile struct{ *os.File }

func (ownFile) Lock() error   { return errors.ErrUnsupported }
func (ownFile) Unlock() error { return errors.ErrUnsupported }
