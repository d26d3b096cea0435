//go:build linux

package e2e

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/page"
)

// This file tests the first page for new users: it runs the page's commands.

// startedPage is the page. ownLines is the maximum number of lines with Synapse's own programs until a gang has run.
const (
	startedPage = "docs/tutorials/three-nodes.md"
	ownLines    = 10
)

// within prepares what the page does not mention: a separate host for the page, with its own processes, networks and
// /srv. It all ends with the shell. Jobs of an interactive shell have separate groups, so that `kill %1` works here
// too.
const within = `set -m -e
mkdir -p /run/netns && mount -t tmpfs none /run/netns && mount -t tmpfs none /srv && chmod 755 /srv
ip link set lo up
`

// untilUp waits as a reader does who looks repeatedly.
const untilUp = `
up() { [ "$(synapse-cli get nodes --no-headers | grep -c ' up ')" = 3 ]; }
for i in $(seq 150); do up && break; sleep 0.2; done
`

// TestThreeNodes runs docs/tutorials/three-nodes.md unchanged: three nodes, a token for each, and a gang on all of
// them.
func TestThreeNodes(t *testing.T) {
	everywhere(t)
	able.Need(t, able.Root, able.Networks, able.Bridges, able.Mounts, able.Program("unshare"), able.Program("nsenter"))
	t.Parallel()
	blocks, shown := blocksOf(t, startedPage)
	if len(blocks) != 6 || len(shown) != 2 {
		t.Fatalf("the page has %d blocks to run and %d with output", len(blocks), len(shown))
	}
	if n := strings.Count(strings.Join(blocks[1:5], ""), "\n"); n > ownLines {
		t.Errorf("a gang has run after %d lines, want at most %d", n, ownLines)
	}
	blocks[3] = strings.Replace(blocks[3], "synapse-cli get nodes", untilUp+"synapse-cli get nodes", 1)
	script := filepath.Join(t.TempDir(), "page.sh")
	logs := `trap 'cat /srv/lab/*.log >&2' ERR` + "\n"
	text := within + logs + strings.Join(blocks, "") + "ls /srv /run/netns\n"
	if err := os.WriteFile(script, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", script)
	shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	var out, failed bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &failed
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(2*time.Minute, func() { _ = shell.Process.Kill() })
	defer watch.Stop()
	if err := shell.Wait(); err != nil {
		t.Fatalf("the page fails: %v\n%s\n%s", err, &out, &failed)
	}
	got := lines(out.String())
	for n := range 3 {
		for _, want := range []string{
			fmt.Sprintf("n%d up", n+1), fmt.Sprintf("[%d] rank %d of 3 is on n%d, and rank 0 at 10.77.0.11", n, n, n+1),
		} {
			if !strings.Contains(got, want) || !strings.Contains(lines(strings.Join(shown, "")), want) {
				t.Errorf("%q is missing in the output or on the page:\n%s\n%s", want, &out, &failed)
			}
		}
	}
	if !strings.Contains(got, "sh succeeded 3") || !strings.HasSuffix(got, "/run/netns:\n\n/srv:\n") {
		t.Errorf("the end of the output differs:\n%s\n%s", &out, &failed)
	}
}

// lines returns the lines of a text without column spacing.
func lines(text string) string {
	all := strings.Split(text, "\n")
	for i, line := range all {
		all[i] = strings.Join(strings.Fields(line), " ")
	}
	return strings.Join(all, "\n")
}

// blocksOf returns the command blocks of a page, and the blocks with output.
func blocksOf(t *testing.T, name string) (typed, shown []string) {
	t.Helper()
	all, err := page.Read("../..", name)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range all {
		if b.Info == "sh" {
			typed = append(typed, b.Text)
		} else {
			shown = append(shown, b.Text)
		}
	}
	return typed, shown
}
