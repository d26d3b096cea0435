//go:build world

// Package world runs what users bring: programs too big to ask of everybody who runs the tests. It is behind a build tag, and
// `make world` installs what it needs. This file owns PyTorch.
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

	"github.com/yi-json/synapse/runtime/able"
)

// TestPyTorch trains examples/pytorch.yaml on a local cluster: four machines of two GPUs, and torchrun on each.
func TestPyTorch(t *testing.T) {
	able.Need(t, able.Program("torchrun"))
	if text, err := exec.Command("/usr/bin/python3", "-c", "import torch").CombinedOutput(); err != nil {
		t.Skipf("this machine has no PyTorch for /usr/bin/python3 (Debian: python3-torch): %s", text)
	}
	folder := room(t)
	bin := filepath.Join(folder, "bin")
	if text, err := exec.Command("go", "build", "-o", bin+"/", "../../cmd/...").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	config := up(t, bin, folder, "--nodes", "4", "--gpus", "2")
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Minute)
	defer cancel()
	submit := exec.CommandContext(ctx, filepath.Join(bin, "synapse-cli"), "submit", example(t, folder), "--attach")
	submit.Env = append(os.Environ(), "SYNAPSE_CONFIG="+config)
	text, err := submit.CombinedOutput()
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	for rank := range 8 {
		if want := fmt.Sprintf("member %d of 8 on node-%d\n", rank, rank/2+1); !bytes.Contains(text, []byte(want)) {
			t.Errorf("%q is missing", want)
		}
	}
	if !bytes.Contains(text, []byte("trained: 8 members, one model, loss ")) {
		t.Error("nobody says that it is trained")
	}
	if t.Failed() {
		t.Logf("it said:\n%s", text)
	}
}

// room is a folder that the tasks' users may pass through.
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

// example is the job file with the program where this test has it.
func example(t *testing.T, folder string) string {
	t.Helper()
	const there = "/usr/local/share/synapse/train.py"
	program, err := os.ReadFile("../../examples/pytorch/train.py")
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.ReadFile("../../examples/pytorch.yaml")
	if err != nil {
		t.Fatal(err)
	}
	here, job := filepath.Join(folder, "train.py"), filepath.Join(folder, "job.yaml")
	text := strings.ReplaceAll(string(file), there, here) + fmt.Sprintf("  mounts: [{source: %[1]s, target: %[1]s, readOnly: true}]\n", here)
	if strings.Count(text, here) < 3 {
		t.Fatalf("the example does not run %s", there)
	}
	for path, content := range map[string][]byte{here: program, job: []byte(text)} {
		if err := os.WriteFile(path, content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return job
}

// up starts a local cluster and answers its client's configuration.
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
			t.Logf("the cluster ended with %v and said:\n%s", err, said)
		}
	})
	lines := bufio.NewScanner(out)
	for !strings.HasPrefix(lines.Text(), "ready:") {
		if !lines.Scan() {
			t.Fatalf("the cluster did not come up: %v\n%s", lines.Err(), said)
		}
	}
	return filepath.Join(data, "cli.yaml")
}
