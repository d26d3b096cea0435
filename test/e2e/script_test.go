package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests scripts that are submitted with a job.

// TestScriptIsSentAlong runs a submitted script on the host's root and in an image, with every driver and with
// arguments. The node's agent may restart and another leader take over meanwhile. The printed job file must submit it
// again.
func TestScriptIsSentAlong(t *testing.T) { eachDriver(t, scriptIsSentAlong) }

func scriptIsSentAlong(t *testing.T, c *cluster) {
	n := c.node("n1", "r1")
	file := filepath.Join(t.TempDir(), "train.sh") // readable only by its owner
	if err := os.WriteFile(file, []byte("#!/bin/sh\n#SBATCH -N 2\necho \"$# $2 ${0##*/}\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	asked := []string{"submit", "--user", user(), "-q"}
	if user() == "" {
		asked = []string{"submit", "-q"}
	}
	over := func(id, want string) {
		t.Helper()
		if s := c.until(id, "over",
			func(s *messages.JobStatus) bool { return s.Record.State.Terminal() }); s.Phase != "succeeded" ||
			c.logs(id) != want {
			t.Errorf("job %s %s: %q, %s", id, s.Phase, c.logs(id), s.Record.Outcome)
		}
	}
	a := c.cli(append(asked, file, "--lr", "a b")...)
	if a.code != 0 || !strings.Contains(a.err, "#SBATCH -N 2 is ignored: use -N 2") {
		t.Fatalf("%+v", a)
	}
	first := strings.TrimSpace(a.out)
	over(first, "2 a b train.sh\n")

	// A job that waits while the agent is down and a leader dies finds its script afterwards.
	n.kill()
	for limit := pace.Until(20 * time.Second); time.Now().Before(limit); {
		if c.machine("n1").GetPhase() == "dead" {
			break
		}
		time.Sleep(100 * time.Millisecond)
	}
	late := strings.TrimSpace(c.cli(append(asked, file, "late", "on")...).out)
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	c.scheduler.kill()
	c.lead(c.address)
	c.node("n1", "r1")
	over(late, "2 on train.sh\n")

	shown := c.cli("get", "job", first, "-o", "yaml")
	if !strings.Contains(shown.out, "script: |") || !strings.Contains(shown.out, "sha256: ") {
		t.Errorf("shown as\n%s", shown.out)
	}
	again := c.command(filepath.Join(bin, "synapse-cli"), "submit", "-", "-q")
	again.Stdin = strings.NewReader(shown.out)
	over(strings.TrimSpace(ask(t, again).out), "2 a b train.sh\n")
	over(strings.TrimSpace(c.cli("submit", "--from", first, "-q").out), "2 a b train.sh\n")

	if c.driver != "process" {
		root := scriptRoot(t)
		image := c.command(filepath.Join(bin, "synapse-cli"), append(asked, "--image", root, "--cpu", "1", "-", "x",
			"in the image")...)
		image.Stdin = strings.NewReader("#!/bin/sh\necho \"$# $2 $0\"\n")
		over(strings.TrimSpace(ask(t, image).out), "2 in the image /scratch/script\n")
	}
}

// scriptRoot creates an image that contains only a shell.
func scriptRoot(t *testing.T) string {
	t.Helper()
	able.Need(t, able.Program("busybox"))
	busybox, err := exec.LookPath("busybox")
	if err != nil {
		t.Fatal(err)
	}
	root, err := os.MkdirTemp("/tmp", "synapse-e2e-script-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(root) })
	text, err := os.ReadFile(busybox)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{
		os.Chmod(root, 0o755), os.Mkdir(filepath.Join(root, "bin"), 0o755), os.WriteFile(filepath.Join(root, "bin",
			"sh"), text, 0o755),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return root
}
