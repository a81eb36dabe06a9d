package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"stado.internal/stado/agent/status"
	"stado.internal/stado/reconcile/duty"
)

// A registered host holds a registry of its own making, newer than any and naming itself, which nobody has signed for. The authority
// names it, and goes on: it takes changes, and every other host's word counts as before.
func TestHostThatIsNotBelieved(t *testing.T) {
	t.Parallel()
	w := newWards(t, "none", "atlas", "boreas")
	atlas, boreas := w.host["atlas"], w.host["boreas"]
	key := filepath.Join(w.dir, "ada")
	if out, err := exec.Command("ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "ada", "-f", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	public, err := os.ReadFile(key + ".pub")
	if err != nil {
		t.Fatal(err)
	}
	w.fleet.file("trust.cue", "package fleet\n\nregistry: trust: {\n\tmode: \"chain\"\n\tsigners: ada: key: %q\n}\n", strings.TrimSpace(string(public)))
	w.land()
	w.fleet.git("push", "--quiet", atlas.own(), "HEAD:main")

	w.fleet.git("checkout", "--quiet", "-b", "made-up")
	w.fleet.generation = 8
	w.fleet.authority("boreas", boreas.own(), 7)
	made := filepath.Join(w.dir, "made-up.git")
	w.fleet.git("clone", "--quiet", "--bare", w.fleet.repo, made)
	if _, err := git(made, "update-ref", "refs/heads/main", "made-up"); err != nil {
		t.Fatal(err)
	}
	w.fleet.git("checkout", "--quiet", "main")
	w.fleet.generation = 2
	boreas.read = []string{"--repository", "file://" + made} // it holds nothing yet, so it takes whatever it reads
	liar := boreas.start("SSH_AUTH_SOCK=")
	boreas.until("its own registry", func() bool { return liar.holds(9) })
	liar.stop()

	agent := w.start("atlas")["atlas"]
	const says = "host boreas says that it holds generation 9, epoch 7, commit "
	atlas.until("the doubt", func() bool {
		d := atlas.state().Doubts
		return len(d) == 1 && d[0].Host == "boreas" && strings.HasPrefix(d[0].Sentence, says) && strings.Contains(d[0].Sentence, "and that is not believed: STADO-SIGN-001: commit ")
	})
	for _, verb := range []string{"agent", "resolver", "authority"} {
		if said := atlas.command(verb, "status"); strings.Count(said, says) != 1 {
			t.Errorf("stado %s status says\n%s", verb, said)
		}
	}
	w.fleet.git("config", "gpg.format", "ssh")
	w.fleet.git("config", "user.signingkey", key)
	w.fleet.git("config", "commit.gpgsign", "true")
	w.land()
	w.fleet.git("push", "--quiet", atlas.own(), "HEAD:main")
	atlas.until("the next change", func() bool { return agent.serves(3) })
	if record, err := duty.Load(atlas.home); record != nil || err != nil {
		t.Errorf("%+v, %v", record, err)
	}

	for _, part := range []string{registryFolder, storeFolder} {
		if err := os.RemoveAll(filepath.Join(boreas.home, part)); err != nil {
			t.Error(err)
		}
		w.copyHome(filepath.Join(atlas.home, part), filepath.Join(boreas.home, part))
	}
	atlas.until("the end of the doubt", func() bool { return len(atlas.state().Doubts) == 0 && atlas.state().State == status.StateServing })
	agent.stop()
	if out := agent.output(); !strings.Contains(out, says) {
		t.Errorf("the log does not say so\n%s", out)
	}
}
