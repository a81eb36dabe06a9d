package adapter

import (
	"bytes"
	"context"
	"encoding/binary"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"stado.internal/stado/fleet"
)

// The permission holds from the first instant: the kernel tells of no change to it after the file appeared.
func TestBindUnixIsNeverWider(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	dir := t.TempDir()
	watch, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(watch)
	if _, err := unix.InotifyAddWatch(watch, dir, unix.IN_CREATE|unix.IN_ATTRIB); err != nil {
		t.Fatal(err)
	}
	l, err := Bind(context.Background(), fleet.Bind{Network: "unix", Address: filepath.Join(dir, "web.sock")}, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	events := make([]byte, 4096)
	n, err := unix.Read(watch, events)
	if err != nil {
		t.Fatal(err)
	}
	var seen uint32
	for e := events[:n]; len(e) >= unix.SizeofInotifyEvent; {
		mask, size := binary.NativeEndian.Uint32(e[4:]), int(binary.NativeEndian.Uint32(e[12:]))
		if name := e[unix.SizeofInotifyEvent : unix.SizeofInotifyEvent+size]; string(bytes.TrimRight(name, "\x00")) == "web.sock" {
			seen |= mask
		}
		e = e[unix.SizeofInotifyEvent+size:]
	}
	if seen != unix.IN_CREATE {
		t.Errorf("events %#x on the socket, want its creation alone", seen)
	}
}
