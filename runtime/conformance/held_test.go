//go:build linux

// This file tests that a job's path is resolved once, when its task is prepared, and that the task gets that result.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// swap replaces the directory at a path.
func swap(t testing.TB, path string) {
	t.Helper()
	if err := os.Rename(path, path+".away"); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(path, "which"), "another", 0o644)
}

// TestDoorHeld checks that the task gets the directory that was at the path during preparation, even if the path
// changes before the start. A next agent has no open files, so it resolves the path again and refuses another
// directory.
func TestDoorHeld(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		if driver == "process" {
			return // plain processes use the paths themselves
		}
		for _, c := range []struct {
			name            string
			restarts, swaps bool
			says            string // output of the task, or the error
		}{
			{"swapped", false, true, "found"}, {"restarted", true, false, "found"},
			{"restarted and swapped", true, true, "leads to another file"},
		} {
			if c.restarts && s.remake == nil {
				continue
			}
			data, image := place(t, "data", 0o755, 0), able.MakeRootfs(t)
			write(t, filepath.Join(data, "which"), "found", 0o644)
			p, err := s.prepare(Task{
				Rootfs: image, User: "nobody", Mounts: map[string]string{"/x": data},
				Command: []string{"/bin/sh", "-c", "cat /x/which"},
			})
			if err != nil {
				t.Fatal(err)
			}
			meanwhile := func() {
				if c.swaps {
					swap(t, data)
					swap(t, image)
				}
			}
			if c.restarts {
				s.restart(t, meanwhile)
			} else {
				meanwhile()
			}
			p.start()
			<-p.gone
			if got := p.said() + p.exit.Detail; !strings.Contains(got, c.says) {
				t.Errorf("%s: %v, it said %q", c.name, p.exit, got)
			}
			s.launcher.Tell(&messages.ForgetTask{Id: p.id}, nil)
			until(t, "it is not forgotten", func() bool { _, err := os.Stat(p.home()); return err != nil })
			s.runs.Delete(p.id.Token.Counter)
		}
	})
}
