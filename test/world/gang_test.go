//go:build world

package world

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/page"
)

// This file tests the tutorial of the first gang.

const (
	gangPage = "docs/tutorials/first-gang.md"
	// gangCluster holds the lines of the page that start its cluster. The test starts the cluster itself.
	gangCluster = "make programs\nbin/synapse-cli up --nodes 2 --gpus 8 --data-dir /tmp/gang\n"
)

// TestFirstGang runs the tutorial: PyTorch trains, is killed, resumes from its checkpoint, is stopped, and resumes.
func TestFirstGang(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Program("torchrun"), able.Program("pkill"))
	if text, err := exec.Command("/usr/bin/python3", "-c", "import torch").CombinedOutput(); err != nil {
		t.Skipf("this host has no PyTorch for /usr/bin/python3 (Debian: python3-torch): %s", text)
	}
	bin, folder := made(t)
	here := room(t)
	if err := os.CopyFS(filepath.Join(here, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	config := up(t, bin, folder, "--nodes", "2", "--gpus", "8")
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", "-c", gangScript(t, config))
	shell.Dir, shell.WaitDelay = here, time.Minute
	shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	var out, failed bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &failed
	if err := shell.Run(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, &out, &failed)
	}
	for _, want := range []string{
		"[0] [default0]:saved step 50\n", "[0] [default0]:attempt 2: 16 members, from step ",
		"[0] [default0]:attempt 3: 16 members, from step ", "trained: 400 steps, loss 0.0",
		"member failed: rank ", "requeued by ",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing", want)
		}
	}
	if strings.Contains(out.String(), "from step 0\n") {
		t.Error("a later attempt began with step 0")
	}
	if t.Failed() {
		t.Logf("it wrote:\n%s\n%s", &out, &failed)
	}
}

// gangScript returns the commands of the page, for a cluster that already runs.
func gangScript(t *testing.T, config string) string {
	t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	blocks, err := page.Read(root, gangPage)
	if err != nil {
		t.Fatal(err)
	}
	script := "set -e\n"
	for _, b := range blocks {
		if use, word, _ := b.Use(); use == page.Elsewhere && word == "world.TestFirstGang" {
			script += b.Text
		}
	}
	if strings.Count(script, gangCluster) != 1 || strings.Count(script, "/tmp/gang/cli.yaml") != 1 {
		t.Fatalf("%s does not start its cluster with %q", gangPage, gangCluster)
	}
	return strings.ReplaceAll(strings.Replace(script, gangCluster, "", 1), "/tmp/gang/cli.yaml", config)
}
