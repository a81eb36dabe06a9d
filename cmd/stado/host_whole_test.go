package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"stado.internal/stado/reconcile/remote/remotetest"
	"stado.internal/stado/reconcile/sandbox/sandboxtest"
)

// wholeHost runs in namespaces of its own, where /etc, /var/lib and /usr/local/bin are copies or empty: what it installs is gone with it.
// Its arguments are the program, the sshd's configuration, the identity, the known hosts, a registry repository and an empty directory. Its
// boot id is a file, and its reboot ends everything, changes that and starts the sshd again.
const wholeHost = `set -eu
mount --make-rprivate /
mount -t tmpfs tmpfs "$6"
mount -t tmpfs tmpfs /run
mkdir /run/sshd
cp -a /etc "$6/etc"
mkdir "$6/lib" "$6/bin"
mount --bind "$6/etc" /etc
mount --bind "$6/lib" /var/lib
mount --bind "$6/bin" /usr/local/bin
mkdir "$6/home"
mount --bind "$6/home" /home
install -m 0600 "$7" /var/lib/keys
echo first >/var/lib/boot
mount --bind /var/lib/boot /proc/sys/kernel/random/boot_id
cat >/usr/local/bin/reboot <<-end
	#!/bin/sh
	kill -KILL \$(cat /var/lib/stado/agent.lock) \$(cat /run/sshd.pid)
	echo second >/var/lib/boot
	exec /usr/sbin/sshd -f "$2" -o PidFile=/run/sshd.pid -o "AuthorizedKeysFile=.ssh/authorized_keys /var/lib/keys" -o StrictModes=yes
end
chmod 0755 /usr/local/bin/reboot
ip link set lo up
/usr/sbin/sshd -f "$2" -o PidFile=/run/sshd.pid -o "AuthorizedKeysFile=.ssh/authorized_keys /var/lib/keys" -o StrictModes=yes
cp -a "$5" /var/lib/repo
git config --file /etc/gitconfig safe.directory '*'
ssh-keygen -q -t ed25519 -N '' -f /var/lib/key
set -- "$1" --registry "$5" --ssh-config /dev/null --ssh-key "$3" --ssh-known-hosts "$4"
stado=$1
shift
"$stado" host bootstrap a1 "$@" --repository /var/lib/repo 2>&1 || echo "status $?"
"$stado" host bootstrap a1 "$@" --repository /var/lib/repo --init none
n=0
until "$stado" host exec a1 "$@" -- stado agent status --home /var/lib/stado >/var/lib/said 2>&1; do
	n=$((n + 1))
	[ "$n" -le 300 ] || { cat /var/lib/said /var/lib/stado/agent.log; exit 1; }
	sleep 0.2
done
cat /var/lib/said
"$stado" host exec a1 "$@" -- sh -c 'stat -c "%U %n" /proc/$(cat /var/lib/stado/agent.lock)/exe /var/lib/stado/agent.cue /usr/local/bin/stado'
"$stado" host bootstrap a1 "$@" --repository /var/lib/repo --init none
echo "# recover"
"$stado" host recover a1 "$@"
kill -STOP "$(cat /var/lib/stado/agent.lock)"
"$stado" host recover a1 "$@" --dry-run 2>&1
kill -KILL "$(cat /var/lib/stado/agent.lock)"
"$stado" host recover a1 "$@"
echo "# reboot"
"$stado" host reboot a1 "$@" --dry-run 2>&1
"$stado" host reboot a1 "$@" 2>&1 || echo "status $?"
"$stado" host recover a1 "$@" --json | sed -n 's/^  "s/"s/p'
echo "# account"
"$stado" host account a1 "$@" --user relay --key /var/lib/key.pub
"$stado" host account a1 "$@" --user relay --key /var/lib/key.pub
"$stado" host exec a1 "$@" --ssh-key /var/lib/key --login relay -- sh -c 'id -un; cat .ssh/authorized_keys; stat -c "%a %U %n" .ssh .ssh/authorized_keys'
usermod --shell /usr/sbin/nologin --lock relay
"$stado" host account a1 "$@" --user relay --key /var/lib/key.pub
"$stado" host exec a1 "$@" --ssh-key /var/lib/key --login relay -- id -un
"$stado" host account a1 "$@" --ssh-key /var/lib/key --login relay --user stado --key /var/lib/key.pub 2>&1 || echo "status $?"
"$stado" host account a1 "$@" --ssh-key /var/lib/key --login relay --user relay --key /var/lib/key.pub --remove
"$stado" host exec a1 "$@" --ssh-key /var/lib/key --login relay -- id -un 2>/dev/null || echo "status $?"
`

// A bare root of its own becomes a host with an agent that serves, run by an account of its own; run again, nothing changes.
func TestHostWhole(t *testing.T) {
	t.Parallel()
	spaces := []string{"--mount", "--pid", "--net", "--fork", "--kill-child", "--mount-proc"}
	namespaces(t, append(spaces, "true")...)
	dir := t.TempDir()
	binary, fleet := filepath.Join(dir, "stado"), filepath.Join(dir, "fleet")
	program, err := os.ReadFile(sandboxtest.Binary(t)) // whose name means nothing in the namespaces
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, program, 0o755); err != nil {
		t.Fatal(err)
	}
	d := remotetest.SSHD(t, remotetest.Config{}) // its files; in the namespaces it is another process
	run := func(name string, args ...string) string {
		t.Helper()
		x := exec.Command(name, args...)
		x.Env = append(os.Environ(), "STADO_HOME="+filepath.Join(dir, "state"))
		out, err := x.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", name, err, out)
		}
		return string(out)
	}
	run(binary, "init", fleet, "--host", "seed")
	host := "package fleet\n\nregistry: hosts: a1: {\n\tssh: \"" + string(d.Destination) +
		"\"\n\tservice_resolver: {api_bind: \"127.0.0.1:7700\", refresh_seconds: 1, max_stale_seconds: 60}\n}\n"
	if err := os.WriteFile(filepath.Join(fleet, "hosts", "a1.cue"), []byte(host), 0o600); err != nil {
		t.Fatal(err)
	}
	run("git", "-C", fleet, "add", ".")
	run("git", "-C", fleet, "-c", "user.name=Ada", "-c", "user.email=ada@example.net", "commit", "--quiet", "--message", "a host")
	place := filepath.Join(dir, "place")
	if err := os.Mkdir(place, 0o755); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(filepath.Dir(d.Identity), "sshd_config")
	got := run("unshare", append(spaces, "sh", "-c", wholeHost, "whole", binary, config, d.Identity, d.KnownHosts, fleet, place, filepath.Join(filepath.Dir(d.Identity), "authorized_keys"))...)
	want := regexp.MustCompile(`(?s)^stado: systemd does not run on host a1 \(write --init none .*?\)
status 1
account    stado \(a system account without a login\)
directory  /var/lib/stado \(mode 0755, owner stado\)
write      /usr/local/bin/stado \(new\)
write      /var/lib/stado/agent.cue \(new\)
start      /usr/local/bin/stado \(left to itself; its log is /var/lib/stado/agent.log\)
agent pid=\d+ home=/var/lib/stado running
resolver a1 state=serving generation=1 commit=[0-9a-f]+
.*stado /proc/\d+/exe
stado /var/lib/stado/agent.cue
root /usr/local/bin/stado
host a1 is as wanted: nothing to change
# recover
host a1: the agent is serving at generation 1; nothing to recover
found      the agent with pid \d+ does not answer: [^\n]*
start      /usr/local/bin/stado \(left to itself; its log is /var/lib/stado/agent.log\)
host a1: a dry run, nothing was changed
found      no agent runs
start      /usr/local/bin/stado \(left to itself; its log is /var/lib/stado/agent.log\)
host a1: the agent is serving at generation 1
# reboot
found      the agent is serving at generation 1
reboot     a1 \(reboot\)
host a1: a dry run, nothing was changed
host a1: reboot ordered; waiting until it is back
host a1 is back after \d+s; no agent runs
stado: host a1 is back, and nothing there starts its agent with it \(run: stado host recover a1\)
status 1
"status": "recovered",
"steps": \[
"state": "serving",
"says": "the agent is serving at generation 1",
# account
account    relay \(with a shell and without a password\)
keys       /home/relay/.ssh/authorized_keys \(1 added, now 1\)
account relay of host a1 is as wanted: nothing to change
relay
restrict,port-forwarding ssh-ed25519 \S+
700 relay .ssh
600 relay .ssh/authorized_keys
shell      relay \(/usr/sbin/nologin to /bin/sh\)
unlock     relay \(it stays without a password\)
relay
stado: host a1 lets us in as relay, who may not change the account stado \(give --login root, or --login stado\)
status 1
keys       /home/relay/.ssh/authorized_keys \(1 removed, 0 left\)
status 69
$`)
	if !want.MatchString(got) {
		t.Errorf("got\n%s", got)
	}
}
