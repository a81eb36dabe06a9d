package remotetest

import (
	"bufio"
	"cmp"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/crypto/ssh/agent"

	"stado.internal/stado/porttest"
)

// Daemon is a real OpenSSH server, run as the current user on a port of the loopback interface, or in a network of its own.
type Daemon struct {
	*Host
	cmd    *exec.Cmd
	argv   []string
	config string // its file
}

// ownPort is the port of a server in a network of its own.
const ownPort = 2022

// InstalledStartups is the MaxStartups of an OpenSSH server whose configuration says nothing: of connections beyond ten that have not
// authenticated yet it turns three in ten away, and more the more there are.
const InstalledStartups = "10:30:100"

// program is looked for where a user's PATH need not lead.
const program = "/usr/sbin/sshd"

// SSHD starts a real OpenSSH server.
func SSHD(t testing.TB, c Config) *Daemon {
	t.Helper()
	if os.Geteuid() == 0 { // where the unprivileged half of a root server is locked up
		if err := os.MkdirAll("/run/sshd", 0o755); err != nil {
			t.Fatal(err)
		}
	}
	me, err := user.Current()
	if err != nil {
		t.Fatal(err)
	}
	port := ownPort
	if len(c.Within) == 0 {
		port = porttest.Keep(t) // also while the server is killed
	}
	d := &Daemon{Host: newHost(t, c, me.Username, cmp.Or(c.Address, "127.0.0.1"), port)}
	d.config = d.configure(t, c)
	// With -r a connection is a fork: it does not start the program again, which is a good part of what a connection costs.
	d.argv = append(slices.Clone(c.Within), program, "-D", "-r", "-e", "-f", d.config)
	d.start(t)
	return d
}

// gitSettings are git's settings in the environment of this process, which hold for sessions as well.
func gitSettings() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		return !strings.HasPrefix(v, "GIT_CONFIG_COUNT=") && !strings.HasPrefix(v, "GIT_CONFIG_KEY_") && !strings.HasPrefix(v, "GIT_CONFIG_VALUE_")
	})
}

func (d *Daemon) configure(t testing.TB, c Config) string {
	t.Helper()
	file := func(name string) string { return filepath.Join(d.dir, name) }
	config := []string{
		"ListenAddress " + d.Name, "Port " + strconv.Itoa(d.Port), "PidFile none", "UsePAM no", "UseDNS no", "StrictModes no",
		"PasswordAuthentication no", "KbdInteractiveAuthentication no", "PermitRootLogin prohibit-password", "MaxStartups " + cmp.Or(c.MaxStartups, "100"),
		"AuthorizedKeysFile " + file("authorized_keys"),
		// The shell reads no dot file of whoever runs the test.
		"SetEnv " + strings.Join(slices.Concat([]string{"HOME=" + d.dir}, gitSettings(), c.Env), " "),
	}
	if c.UserAuthority == nil {
		WritePublic(t, file("authorized_keys"), d.Key.PublicKey())
	} else {
		WritePublic(t, file("user_ca"), c.UserAuthority.PublicKey())
		config = append(config, "TrustedUserCAKeys "+file("user_ca"))
	}
	for i, k := range d.HostKeys {
		name := file("host_key_" + strconv.Itoa(i))
		k.Write(t, name, "")
		config = append(config, "HostKey "+name)
	}
	if cert := c.hostCertificate(t, d.Host); cert != nil {
		WritePublic(t, file("host_key_0-cert.pub"), cert)
		config = append(config, "HostCertificate "+file("host_key_0-cert.pub"))
	}
	write(t, file("sshd_config"), []byte(strings.Join(config, "\n")+"\n"))
	return file("sshd_config")
}

// start waits until the server listens.
func (d *Daemon) start(t testing.TB) {
	t.Helper()
	cmd := exec.Command(d.argv[0], d.argv[1:]...)
	d.cmd = cmd
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("cannot start %s: %v (install openssh-server)", program, err)
	}
	lines := bufio.NewScanner(stderr)
	var all strings.Builder
	for lines.Scan() {
		all.WriteString(lines.Text() + "\n")
		if strings.Contains(lines.Text(), "Server listening on") {
			var reading sync.WaitGroup
			reading.Go(func() {
				for lines.Scan() {
					continue // it must never wait for a reader
				}
			})
			t.Cleanup(func() {
				d.Kill()
				reading.Wait()
				_ = cmd.Wait() // it was killed
			})
			return
		}
	}
	_ = cmd.Wait() // what it said is the better reason
	t.Fatalf("%s does not start (install openssh-server): %s", program, all.String())
}

// Kill ends the server and every session of it: when it returns, nothing of them listens or speaks any more.
func (d *Daemon) Kill() {
	all := d.tree()
	for _, pid := range all {
		_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself
	}
	for _, pid := range all {
		await(pid, "ZX")
	}
}

// Restart starts a server that was killed again, under its address and with its keys.
func (d *Daemon) Restart(t testing.TB) {
	t.Helper()
	d.start(t)
}

// Freeze stops the server and every session of it in their tracks: connections are still taken, by the kernel.
func (d *Daemon) Freeze() { d.tree() }

// Thaw lets them go on.
func (d *Daemon) Thaw() {
	for _, pid := range d.tree() {
		_ = syscall.Kill(pid, syscall.SIGCONT) // it may have ended by itself
	}
}

// tree stops every process of the server, parents first so that none is added, and names them. A signal only asks: a process that is in
// the middle of a fork stops after it, so its children are known once it has stopped.
func (d *Daemon) tree() []int {
	all := []int{d.cmd.Process.Pid}
	for i := 0; i < len(all); i++ {
		_ = syscall.Kill(all[i], syscall.SIGSTOP) // it may have ended by itself
		await(all[i], "TZX")
		all = append(all, children(all[i])...)
	}
	return all
}

// await waits until a process is in one of the states, or is no more: a signal is only a wish until the process has run once more.
func await(pid int, states string) {
	for stat := status(pid); len(stat) > 0 && !strings.Contains(states, stat[0]); stat = status(pid) {
		runtime.Gosched()
	}
}

// status reads what the kernel says of a process behind its name: its state, its parent and more; nothing once it has ended.
func status(pid int) []string {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.Fields(rest)
}

// children reads the process table; a process that ends meanwhile is no child.
func children(parent int) []int {
	var out []int
	entries, _ := os.ReadDir("/proc")
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		if fields := status(pid); len(fields) > 1 && fields[1] == strconv.Itoa(parent) {
			out = append(out, pid)
		}
	}
	return out
}

// Agent starts a real ssh-agent that holds keys, and gives its socket.
func Agent(t testing.TB, keys ...Key) string {
	t.Helper()
	socket := filepath.Join(t.TempDir(), "agent")
	cmd := exec.Command("ssh-agent", "-D", "-a", socket)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatalf("cannot start ssh-agent: %v (install openssh-client)", err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
	})
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil { // it listens once it has named its socket
		t.Fatalf("ssh-agent does not start: %v", err)
	}
	for _, k := range keys {
		add(t, socket, k)
	}
	return socket
}

func add(t testing.TB, socket string, k Key) {
	t.Helper()
	conn, err := net.Dial("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if err := agent.NewClient(conn).Add(agent.AddedKey{PrivateKey: k.private}); err != nil {
		t.Fatal(err)
	}
}
