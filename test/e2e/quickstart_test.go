package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/page"
)

// This file owns the pages with a cluster of `up`: each command of README and of the quickstart is typed here.

// quickBefore is the reader's shell. Its make only looks whether there is such a target, since the programs are built
// already. The reader's first terminal is a process in the background, which ends with the shell.
const quickBefore = `set -eE -o pipefail
trap 'kill "$up" && wait "$up"' EXIT
trap 'cat log >&2' ERR
make() { command make -n -C "$root" "$@" >/dev/null; }
first() {
	"$@" >ready 2>log & up=$!
	for i in $(seq 600); do grep -q '^ready: ' ready && break; sleep 0.1; done
	cat ready
}
`

// TestQuickstart: README and the quickstart show what their commands answer.
func TestQuickstart(t *testing.T) {
	everywhere(t)
	for _, name := range []string{"README.md", "docs/tutorials/quickstart.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quickstart(t, name)
		})
	}
}

// quickstart types the commands of a page, and compares what they answer with what the page shows.
func quickstart(t *testing.T, name string) {
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := page.Read(root, name)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for at := dir; at != os.TempDir() && at != "/"; at = filepath.Dir(at) { // tasks run as other users
		if err := os.Chmod(at, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(bin, filepath.Join(dir, "bin")); err != nil {
		t.Fatal(err)
	}
	script, shown, blocks := "root="+root+"\n"+quickBefore, "", 0
	for _, b := range all {
		switch use, word, _ := b.Use(); {
		case use == page.Elsewhere && word == "e2e.TestQuickstart":
			blocks++
			script += b.Text
		case use == page.Shown:
			shown += b.Text
		}
	}
	if blocks == 0 || strings.Count(script, "\nbin/synapse-cli up ") != 1 {
		t.Fatalf("%s has %d blocks to type, and one of them starts a cluster", name, blocks)
	}
	script = strings.ReplaceAll(script, "\nbin/synapse-cli up ", "\nfirst bin/synapse-cli up ")
	shell := exec.CommandContext(t.Context(), "bash", "-c", strings.ReplaceAll(script, "/tmp/demo", dir+"/demo"))
	shell.Dir, shell.WaitDelay = dir, time.Minute
	var out, failed bytes.Buffer
	shell.Stdout, shell.Stderr = &out, &failed
	if err := shell.Run(); err != nil {
		t.Fatalf("%s fails: %v\n%s\n%s", name, err, &out, &failed)
	}
	got := strings.Split(lines(page.Mask(out.String())), "\n")
	for _, want := range strings.Split(lines(page.Mask(shown)), "\n") {
		if want != "" && !slices.Contains(got, want) {
			t.Errorf("%s shows %q, and the answer is\n%s\n%s", name, want, &out, &failed)
		}
	}
	if n := strings.Count(out.String(), " of 4 "); n != 4 {
		t.Errorf("%d of 4 tasks ran:\n%s\n%s", n, &out, &failed)
	}
}
