package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/page"
)

// This file tests docs/jobs/launchers.md. Each of its job files runs unchanged, with programs that replace the
// frameworks and read the same inputs (testdata/launchers).

// TestLaunchers checks that each file's gang forms a world of the right size, in which each rank occurs once.
func TestLaunchers(t *testing.T) {
	l := up(t, "--nodes", "2", "--gpus", "8", "--racks", "2", "--listen", "127.0.0.1:0")
	l.ready(2, 16, 2)
	home := filepath.Join(l.dir, "clone")
	if err := os.CopyFS(filepath.Join(home, "bin"), os.DirFS("testdata/launchers")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile("../../docs/jobs/launchers.md")
	if err != nil {
		t.Fatal(err)
	}
	worlds := map[string]int{"torchrun": 16, "jax": 2, "slurm": 16, "mpi": 2, "deepspeed": 16}
	for _, b := range page.Blocks("docs/jobs/launchers.md", string(whole)) {
		if b.Info != "yaml" {
			continue
		}
		text := strings.Replace(b.Text, "  image: host\n",
			"  image: host\n  env: {PATH: "+filepath.Join(home, "bin")+":/usr/bin:/bin}\n", 1)
		_, rest, _ := strings.Cut(text, "launcher: ")
		name, _, _ := strings.Cut(rest, "\n")
		world, ok := worlds[name]
		if !ok {
			t.Fatalf("docs/jobs/launchers.md has an unexpected or second file with launcher %q", name)
		}
		delete(worlds, name)
		file := filepath.Join(home, name+".yaml")
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		submit := l.command(filepath.Join(bin, "synapse-cli"), "submit", file, "--attach")
		submit.Dir = home
		r := ask(t, submit)
		r.wants(t, 0, "", "succeeded")
		for rank := range world {
			if n := strings.Count(r.out, fmt.Sprintf("rank %d of %d, device ", rank, world)); n != 1 {
				t.Errorf("%s: rank %d of %d occurs %d times:\n%s", name, rank, world, n, r.out)
			}
		}
	}
	l.namesResolve()
	for name := range worlds {
		t.Errorf("docs/jobs/launchers.md has no file with launcher: %s", name)
	}
	for _, word := range messages.LaunchWords() {
		if !strings.Contains(string(whole), "\n| `"+word+"` |") {
			t.Errorf("docs/jobs/launchers.md does not mention %s", word)
		}
	}
}

// namesResolve checks that each member of a gang finds the others by their node names, at their own addresses, if tasks
// have their own root. The host's own names must still resolve.
func (l *local) namesResolve() {
	submit := l.command(filepath.Join(bin, "synapse-cli"), "submit", "-N", "2", "--image", "host", "--attach", "--",
		"sh", "-c", "getent hosts node-1 node-2 localhost; head -c 4096 $SYNAPSE_HOSTFILE")
	r := ask(l.t, submit)
	r.wants(l.t, 0, "", "succeeded")
	if able.Containers.Lacks() != nil {
		return // a task is a plain process of the host, and has its names
	}
	found := regexp.MustCompile(`(?m)^\[[01]\] (127\.[0-9.]+) +node-([12])$`).FindAllStringSubmatch(r.out, -1)
	addresses := map[string]string{}
	for _, f := range found {
		addresses[f[2]] = f[1]
	}
	if len(found) != 4 || addresses["1"] == addresses["2"] || strings.Count(r.out, "localhost") < 2 {
		l.t.Errorf("names resolve to %v:\n%s", addresses, r.out)
	}
	for _, address := range addresses {
		if strings.Count(r.out, address+" slots=1\n") != 2 {
			l.t.Errorf("%s is not in the hostfile:\n%s", address, r.out)
		}
	}
}
