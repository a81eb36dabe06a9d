package durable

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLock: one holder at a time; who waits gets it when it is given back, and is told by name when it is not.
func TestLock(t *testing.T) {
	f := Folder{Path: t.TempDir()}
	synctest.Test(t, func(t *testing.T) {
		release, err := f.Lock()
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		if _, err := f.Lock(); !errors.Is(err, ErrLocked) || !strings.Contains(err.Error(), filepath.Join(f.Path, LockFile)) {
			t.Errorf("a stopped holder: %v", err)
		}
		if waited := time.Since(start); waited < LockPatience || waited > LockPatience+lockPause {
			t.Errorf("waited %s", waited)
		}
		time.AfterFunc(time.Second, func() {
			if err := release(); err != nil {
				t.Error(err)
			}
		})
		unlock, err := f.Lock()
		if err != nil {
			t.Fatal(err)
		}
		if err := unlock(); err != nil {
			t.Error(err)
		}
	})
}
