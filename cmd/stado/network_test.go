package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// place is where a host of a test is.
type place struct {
	address string
	within  []string // the command that starts a program there; none where the test is
}

// loopback are places on addresses of this machine's loopback network.
func loopback(n int) []place {
	out := make([]place, n)
	for i := range out {
		out[i].address = fmt.Sprintf("127.0.0.%d", 11+i)
	}
	return out
}

// namespaces runs unshare with further arguments, as who may make namespaces.
func namespaces(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command("unshare", args...).CombinedOutput(); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("no namespaces: %v\n%s", err, out)
		}
		t.Skipf("needs the privilege to make namespaces: %v", err)
	}
}

// apart are places in network namespaces of their own, with one bridge between them.
func apart(t *testing.T, n int) []place {
	t.Helper()
	namespaces(t, "--net", "true")
	ip := func(args string) {
		t.Helper()
		if out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			t.Fatalf("ip %s: %v\n%s", args, err, out)
		}
	}
	made := func(name string) string {
		t.Helper()
		ip("netns add " + name)
		t.Cleanup(func() {
			if out, err := exec.Command("ip", "netns", "del", name).CombinedOutput(); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		})
		return name
	}
	bridge := made(fmt.Sprintf("stado-%d", os.Getpid()))
	ip("-n " + bridge + " link add bridge type bridge")
	ip("-n " + bridge + " link set bridge up")
	out := make([]place, n)
	for i := range out {
		host := made(fmt.Sprintf("%s-%d", bridge, i))
		out[i] = place{fmt.Sprintf("10.77.0.%d", 11+i), []string{"ip", "netns", "exec", host}}
		ip(fmt.Sprintf("link add wire netns %s type veth peer name port%d netns %s", host, i, bridge))
		ip(fmt.Sprintf("-n %s link set port%d master bridge up", bridge, i))
		ip("-n " + host + " addr add " + out[i].address + "/24 dev wire")
		ip("-n " + host + " link set wire up")
		ip("-n " + host + " link set lo up")
	}
	return out
}

// program is a program as it is started there: itself, or a file that starts it.
func (p place) program(t *testing.T, binary, file string) string {
	t.Helper()
	if len(p.within) == 0 {
		return binary
	}
	script := "#!/bin/sh\nexec " + strings.Join(p.within, " ") + " " + binary + " \"$@\"\n"
	if err := os.WriteFile(file, []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// push has somebody there push a branch of a repository to another one.
func (p place) push(from, to string) (string, error) {
	argv := append(append([]string{}, p.within...), "git", "-C", from, "push", "--quiet", to, "HEAD:main")
	out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	if err != nil {
		err = errors.Join(err, errors.New(string(out)))
	}
	return string(out), err
}
