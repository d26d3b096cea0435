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

// This file tests the pages that use a cluster of `up`: it runs each command of README and of the quickstart.

// quickBefore is the reader's shell. Its make only checks that the target exists, because the programs are already
// built. The reader's first terminal is a background process, which ends with the shell.
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

// TestQuickstart checks that README and the quickstart show the real output of their commands.
func TestQuickstart(t *testing.T) {
	everywhere(t)
	for _, name := range []string{"README.md", "docs/tutorials/quickstart.md"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			quickstart(t, name)
		})
	}
}

// quickstart runs the commands of a page, and compares their output with the page.
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
		t.Fatalf("%s has %d blocks to run, of which one starts a cluster", name, blocks)
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
			t.Errorf("%s shows %q, but the output is\n%s\n%s", name, want, &out, &failed)
		}
	}
	if n := strings.Count(out.String(), " of 4 "); n != 4 {
		t.Errorf("%d of 4 tasks ran:\n%s\n%s", n, &out, &failed)
	}
}
