package main

import (
	"os"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"stado.internal/stado/reconcile/remote/remotetest"
)

// testValue is the key of the running test among a script's values.
type testValue struct{}

// sshd starts a real OpenSSH server for the rest of the script and sets SSHUSER, SSHPORT, SSHKEY and SSHKNOWN. The file ssh-config then
// knows it by the name `named` too, for destinations without a port; nothing of whoever runs the test is read.
func scriptSSHD(ts *testscript.TestScript, _ bool, args []string) {
	t, ok := ts.Value(testValue{}).(testing.TB)
	if !ok || len(args) > 0 {
		ts.Fatalf("usage: sshd")
	}
	d := remotetest.SSHD(t, remotetest.Config{})
	port := strconv.Itoa(d.Port)
	for name, value := range map[string]string{"SSHUSER": d.User, "SSHPORT": port, "SSHKEY": d.Identity, "SSHKNOWN": d.KnownHosts} {
		ts.Setenv(name, value)
	}
	config := "Host named\n  HostName 127.0.0.1\n  HostKeyAlias [127.0.0.1]:" + port + "\n  Port " + port + "\n"
	ts.Check(os.WriteFile(ts.MkAbs("ssh-config"), []byte(config), 0o600))
}
