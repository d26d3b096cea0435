//go:build world

package world

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/page"
)

// This file tests PyTorch.

// TestPyTorch trains examples/pytorch.yaml unchanged on a local cluster with four nodes of two GPUs and torchrun on
// each. It also submits the program alone.
func TestPyTorch(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Program("torchrun"))
	if text, err := exec.Command("/usr/bin/python3", "-c", "import torch").CombinedOutput(); err != nil {
		t.Skipf("this host has no PyTorch for /usr/bin/python3 (Debian: python3-torch): %s", text)
	}
	bin, folder := made(t)
	config := up(t, bin, folder, "--nodes", "4", "--gpus", "2")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	here := room(t) // a separate folder, because tasks cannot see the parents of the agents' own directories
	if err := os.CopyFS(filepath.Join(here, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile("../../examples/pytorch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	commands := page.Commands(string(text))
	if len(commands) != 2 {
		t.Fatalf("examples/pytorch.yaml has the commands %q", commands)
	}
	for _, command := range commands {
		submit := exec.CommandContext(ctx, "sh", "-c", command)
		submit.Dir = here
		submit.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "SYNAPSE_CONFIG="+config)
		trains(t, submit)
	}
}

// trains submits the example, and checks that all its members have done their part.
func trains(t *testing.T, submit *exec.Cmd) {
	t.Helper()
	text, err := submit.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v:\n%s", submit.Args, err, text)
	}
	for rank := range 8 {
		if want := fmt.Sprintf("member %d of 8 on node-%d\n", rank, rank/2+1); !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	if !bytes.Contains(text, []byte("trained: 8 members, one model, loss ")) {
		t.Error("no output says that the training has finished")
	}
	if t.Failed() {
		t.Logf("it said:\n%s", text)
	}
}

// room creates a folder that the users of tasks may pass through.
func room(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "synapse-world-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(folder); err != nil {
			t.Error(err)
		}
	})
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// up starts a local cluster and returns its client's configuration.
func up(t *testing.T, bin, folder string, arguments ...string) string {
	t.Helper()
	data := filepath.Join(folder, "cluster")
	said := &bytes.Buffer{}
	cluster := exec.Command(filepath.Join(bin, "synapse-cli"), append([]string{"up", "--data-dir", data}, arguments...)...)
	cluster.Stderr = said
	out, err := cluster.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cluster.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cluster.Process.Signal(syscall.SIGTERM)
		err := cluster.Wait()
		if t.Failed() {
			t.Logf("the cluster ended with %v and printed:\n%s", err, said)
		}
	})
	lines := bufio.NewScanner(out)
	for !strings.HasPrefix(lines.Text(), "ready:") {
		if !lines.Scan() {
			t.Fatalf("the cluster did not become ready: %v\n%s", lines.Err(), said)
		}
	}
	return filepath.Join(data, "cli.yaml")
}
