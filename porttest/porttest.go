// Package porttest keeps TCP ports of this machine for a test.
package porttest

import (
	"net"
	"strconv"
	"syscall"
	"testing"
)

// Keep gives a TCP port on which nothing listens and that nobody else comes by until the test is over: a connection to it is refused, and
// only who is told of it can listen on it, at any address of this machine and as often as it likes. A port that was merely found free may
// be another's a moment later, also as the near end of somebody's connection.
//
// The port is bound by a socket that never listens. It lets others in after that (SO_REUSEADDR, which Go and OpenSSH ask for when they
// listen), but the kernel no longer gives it to whoever wants any port.
func Keep(t testing.TB) int {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatalf("a port cannot be kept: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	if err := syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 0); err != nil { // for both families
		t.Fatal(err)
	}
	if err := syscall.Bind(fd, &syscall.SockaddrInet6{}); err != nil {
		t.Fatal(err)
	}
	if err := syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1); err != nil {
		t.Fatal(err)
	}
	name, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	return name.(*syscall.SockaddrInet6).Port
}

// Address is a loopback address with a port of [Keep].
func Address(t testing.TB) string {
	t.Helper()
	return net.JoinHostPort("127.0.0.1", strconv.Itoa(Keep(t)))
}
