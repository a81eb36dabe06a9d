package sandbox

import (
	"strings"
	"testing"
)

func TestLastWordsOfTheRuntime(t *testing.T) {
	t.Parallel()
	const starved = "SIGSEGV: segmentation violation\nPC=0x43249d m=2 sigcode=1 addr=0x0\n\n" +
		"goroutine 0 gp=0x383cdacb40 m=2 mp=0x383cde2808 [idle]:\nruntime.(*spanQueue).tryDrain(0x3800000400?)\n"
	for _, tc := range []struct {
		name, words, detail string
		ok                  bool
	}{
		{"heap", "fatal error: runtime: out of memory\n", "", true},
		{"metadata", "runtime: cannot allocate memory\n", "", true},
		{"thread", "runtime: failed to create new OS thread (have 9 already; errno=11)\n", "", true},
		{"stack", "runtime: goroutine stack exceeds 134217728-byte limit\nfatal error: stack overflow\n", "stack", true},
		{"collector without room", starved, "", true},
		{"the same address in the program", strings.Replace(starved, "goroutine 0 ", "goroutine 7 ", 1), "", false},
		{"another address in the runtime", strings.Replace(starved, "addr=0x0", "addr=0x10", 1), "", false},
		{"panic", "panic: index out of range\n\ngoroutine 1 [running]:\n", "", false},
		{"nothing", "", "", false},
	} {
		if detail, ok := outOfMemory(tc.words); detail != tc.detail || ok != tc.ok {
			t.Errorf("%s: got %q, %v; want %q, %v", tc.name, detail, ok, tc.detail, tc.ok)
		}
	}
}

func TestStderrKeepsBothEnds(t *testing.T) {
	t.Parallel()
	for _, chunk := range []int{1, 3, 7, 100} {
		s := stderrEnds{cap: 8}
		all := "0123456789abcdef"
		for i := 0; i < len(all); i += chunk {
			if n, err := s.Write([]byte(all[i:min(i+chunk, len(all))])); err != nil || n == 0 {
				t.Fatal(n, err)
			}
		}
		if got, want := s.String(), "0123\n…\ncdef"; got != want {
			t.Errorf("chunks of %d: got %q, want %q", chunk, got, want)
		}
	}
	s := stderrEnds{cap: 8}
	_, _ = s.Write([]byte("short"))
	if got := s.String(); got != "short" {
		t.Errorf("got %q", got)
	}
}
