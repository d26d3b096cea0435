//go:build world

package world

import (
	"context"
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

// This file runs the blocks of pages that take too long for e2e.TestPagesAreTyped.

// blockPatience bounds one block on a busy host.
const blockPatience = 5 * time.Minute

// blocksFor returns the blocks of a page that a test must run.
func blocksFor(t *testing.T, name string) (all []page.Block) {
	t.Helper()
	blocks, err := page.Read("../..", name)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		if use, word, err := b.Use(); err == nil && use == page.Elsewhere && word == "world."+t.Name() {
			all = append(all, b)
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s does not name this test", name)
	}
	return all
}

// output runs a shell for a while, and returns its output.
func output(t *testing.T, bin, folder string, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), blockPatience)
	defer cancel()
	shell := exec.CommandContext(ctx, "bash", words...)
	shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "TMPDIR="+folder)
	shell.Cancel = func() error { return shell.Process.Signal(syscall.SIGTERM) } // the tour ends its cluster
	shell.WaitDelay = time.Minute
	text, err := shell.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", words, err, text)
	}
	return string(text)
}

// TestTour checks that `make run` shows the same steps as the quickstart, in that order.
func TestTour(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Containers)
	bin, folder := made(t)
	build := exec.Command("go", "build", "-ldflags=-s -w", "-o", filepath.Join(bin, "synapse-allreduce"),
		"../../examples/allreduce")
	if text, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	said := output(t, bin, folder, "../../examples/tour.sh", bin)
	shown := page.Steps(said)
	for _, b := range blocksFor(t, "docs/tutorials/quickstart.md") {
		for _, want := range page.Steps(b.Text) {
			for len(shown) > 0 && !alike(shown[0], want) {
				shown = shown[1:]
			}
			if len(shown) == 0 {
				t.Fatalf("%s: the output lacks $ %s\n%s\nfull output:\n%s", b, want.Command, want.Answer, said)
			}
		}
	}
}

// alike reports whether a step equals the step of a page, apart from text that differs between runs.
func alike(got, want page.Step) bool {
	return page.Mask(got.Command) == page.Mask(want.Command) &&
		strings.HasPrefix(page.Mask(got.Answer)+"\n", page.Mask(want.Answer)+"\n")
}

// TestCapacityBlocks checks that the longer replays of docs/operate/capacity.md succeed, and that one of them writes
// its report.
func TestCapacityBlocks(t *testing.T) {
	t.Parallel()
	bin, folder := made(t)
	blocks := blocksFor(t, "docs/operate/capacity.md")
	for _, b := range blocks {
		said := output(t, bin, folder, "-ec", "cd "+folder+"\n"+b.Text)
		if !strings.Contains(said, "POLICY") {
			t.Errorf("%s: it says\n%s", b, said)
		}
	}
	text, err := os.ReadFile(filepath.Join(folder, "waits.html"))
	if err != nil || !strings.Contains(string(text), "<svg") {
		t.Errorf("waits.html: %v", err)
	}
}
