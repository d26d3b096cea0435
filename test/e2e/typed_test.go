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

// This file tests every page: it runs the page's commands on a separate host.

const (
	// typedPatience is the time for all pages together on a busy host.
	typedPatience = 5 * time.Minute
	// begins is the page whose blocks create the cluster for all other pages. It runs after plain, whose blocks
	// start a cluster without keys and end it.
	begins, plain = "docs/operate/tls.md", "docs/operate/run.md"
	// aToken is the ID that a page shows for the token that its reader has created.
	aToken = "3f9a2c01d4e58b77"
)

// pages returns all pages to run, with these two first.
func pages(t *testing.T, root string) []string {
	all := []string{plain, begins}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md", "test/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, path := range found {
			if name := strings.TrimPrefix(path, root+"/"); name != begins && name != plain {
				all = append(all, name)
			}
		}
	}
	return all
}

// TestPagesAreTyped runs each command block of every page on one host and one cluster. The output below commands must
// be their standard output.
func TestPagesAreTyped(t *testing.T) {
	everywhere(t)
	able.Need(t, able.Root, able.Networks, able.Mounts, able.Program("unshare"), able.Program("ip"), able.Program("curl"),
		able.Program("openssl"), able.Program("make"))
	t.Parallel()
	root, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	lab, err := os.MkdirTemp("", "synapse-e2e-pages-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(lab) })
	script := "root=" + root + " lab=" + lab + "\n. testdata/pages.sh\n"
	var consoles []page.Block
	for _, name := range pages(t, root) {
		blocks, err := page.Read(root, name)
		if err != nil {
			t.Fatal(err)
		}
		script += "on " + name + "\n"
		for _, b := range blocks {
			script += typing(t, b)
			if use, _, _ := b.Use(); use == page.Typed && b.Info == page.Console {
				consoles = append(consoles, b)
			}
		}
	}
	typed(t, lab, script+"over\n")
	for _, b := range consoles {
		for n, step := range page.Steps(b.Text) {
			text, err := os.ReadFile(answerOf(lab, b, n))
			if got, want := page.Mask(string(text)), page.Mask(step.Answer); err != nil || got != want {
				t.Errorf("%s: $ %s\nprints\n%s\nbut the page shows\n%s (%v)", b, step.Command, got, want, err)
			}
		}
	}
}

// typing returns the part of the script for a block.
func typing(t *testing.T, b page.Block) string {
	use, word, err := b.Use()
	if err != nil {
		t.Fatal(err)
	}
	where := fmt.Sprintf("at=%s\n", b)
	text := strings.ReplaceAll(b.Text, aToken, "$(made_token)")
	switch {
	case use == page.File:
		return where + fmt.Sprintf("file %s %s <<'END OF BLOCK'\n%sEND OF BLOCK\n", b.Page, word, b.Text)
	case use != page.Typed:
		return ""
	case b.Info == page.Console:
		text = ""
		for n, step := range page.Steps(b.Text) {
			// Standard error is omitted, because the shell sometimes prints there which of its jobs has
			// ended.
			text += fmt.Sprintf("{ %s; } >%s\n", step.Command, answerOf("$lab", b, n))
		}
	}
	about := fmt.Sprintf("%q\n", b.Page+":"+b.Heading)
	return where + "given " + about + text + "seen " + about
}

// answerOf returns the file with the output of a command of a console block.
func answerOf(lab string, b page.Block, step int) string {
	return fmt.Sprintf("%s/log/answer-%d-%d", lab, b.Line, step)
}

// typed runs the script with its own processes, networks and mounts, which all end with the shell.
func typed(t *testing.T, lab, script string) {
	file := filepath.Join(lab, "script")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	shell := exec.Command("unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child", "bash", file)
	shell.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
	var said bytes.Buffer
	shell.Stdout, shell.Stderr = &said, &said
	if err := shell.Start(); err != nil {
		t.Fatal(err)
	}
	watch := time.AfterFunc(typedPatience, func() { _ = shell.Process.Kill() })
	defer watch.Stop()
	if err := shell.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, &said)
	}
}
