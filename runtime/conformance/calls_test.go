//go:build linux

// This file tests the permitted system calls of a task in every driver. runtime/calls lists them; here the kernel
// answers.
package conformance

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
)

// shown returns a copy of this test binary that every user may run.
func shown(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	folder := open(t)
	if err := os.WriteFile(filepath.Join(folder, "probe"), text, 0o755); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestCallsOnAMachine checks that every driver refuses the forbidden system calls, and permits the needed ones.
func TestCallsOnAMachine(t *testing.T) {
	if interpreter := interpreterOf(t, "/proc/self/exe"); interpreter != "" {
		t.Skipf("the probe is this test binary, and it needs %s; make test runs it linked statically", interpreter)
	}
	refused := []string{
		"vsock", "alg", "personality", "tree attr", "userfault", "mbind", "unshare user", "bpf", "io_uring",
		"keyctl", "inject",
	}
	onEveryDriver(t, func(t *testing.T, s *stack) {
		_, driver, _ := strings.Cut(t.Name(), "/")
		words, needs := slices.Clone(refused), []string{"inet"}
		switch driver {
		case "upstream":
			return // that program has its own filter
		case "process":
			if _, err := supervisor.Landlock(); err != nil {
				t.Skip(err)
			}
			needs = append(needs, "traced")
		case "carapace":
			words, needs = append(words, "clone3 user"), append(needs, "traced")
		default: // with other runtimes, a process that traces itself hangs
			words = append(words, "clone3 user")
		}
		folder := shown(t)
		task := Task{Rootfs: able.MakeRootfs(t), Mounts: map[string]string{folder: folder}}
		task.Command = append([]string{filepath.Join(folder, "probe"), probeArgument}, slices.Concat(words, needs)...)
		p, err := s.prepare(task)
		if err != nil {
			t.Fatal(err)
		}
		p.start()
		<-p.gone
		if p.exit.Kind != messages.ExitKind_EXIT_KIND_EXITED || p.exit.Code != 0 {
			t.Fatalf("the probe: %v, %s", p.exit, p.said())
		}
		got := answers(p.said())
		go p.see(nil, nil)
		await(t, p)
		for _, word := range words {
			if got[word] != "EPERM" && got[word] != "ENOSYS" {
				t.Errorf("%s is answered %q", word, got[word])
			}
		}
		for _, word := range needs {
			if got[word] != "allowed" {
				t.Errorf("%s is answered %q", word, got[word])
			}
		}
	})
}
