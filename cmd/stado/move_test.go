package main

import (
	"fmt"
	"io"
	"net/http"
	"testing"
)

// TestMovedAdapterCutsNoDownload: a commit that moves one adapter leaves a download over another one alone.
func TestMovedAdapterCutsNoDownload(t *testing.T) {
	t.Parallel()
	const size = 64 << 20
	proceed := make(chan struct{})
	l := newLab(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/slow" {
			greet(w, r)
			return
		}
		w.Header().Set("Content-Length", fmt.Sprint(size))
		writeHalf(w, size/2)
		<-proceed
		writeHalf(w, size/2)
	}))
	r := l.start()
	l.until("the first generation", func() bool { return r.serves(1) })

	resp, err := http.Get(l.url(l.side) + "slow")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	half := make([]byte, size/2)
	if _, err := io.ReadFull(resp.Body, half); err != nil {
		t.Fatalf("the first half of the download: %v", err)
	}

	old := l.adapter
	l.adapter = freeLoopbackPorts(t, 1)[0]
	l.land("move the adapter")
	l.until("the adapter at its new address", func() bool { _, err := fetch(l.url(l.adapter)); return err == nil })
	l.until("the end of the old address", func() bool { _, err := fetch(l.url(old)); return err != nil })

	close(proceed)
	if _, err := io.ReadFull(resp.Body, half); err != nil {
		t.Fatalf("the download was cut by the move of another adapter: %v", err)
	}
	r.stop()
}

func writeHalf(w http.ResponseWriter, size int) {
	writeBytesOnly(w, size)
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func writeBytesOnly(w io.Writer, size int) {
	block := make([]byte, 1<<20)
	for ; size > 0; size -= len(block) {
		if _, err := w.Write(block[:min(size, len(block))]); err != nil {
			return
		}
	}
}
