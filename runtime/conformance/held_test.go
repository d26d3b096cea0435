//go:build linux

// What a job named is found once, when its task is prepared, and is shown to the task as it was found.
package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// swap puts another directory at a path.
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

// TestDoorHeld: what was at the path when the task was prepared is what it is shown, wherever the path leads by the
// time it starts. A next agent has nothing open: it goes there again, and refuses what is not the same.
func TestDoorHeld(t *testing.T) {
	onPlainMachines(t, func(t *testing.T, s *stack, driver string) {
		if driver == "process" {
			return // plain processes go there by themselves
		}
		for _, c := range []struct {
			name            string
			restarts, swaps bool
			says            string // by the task, or in place of it
		}{
			{"swapped", false, true, "found"}, {"restarted", true, false, "found"},
			{"restarted and swapped", true, true, "leads to something else"},
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
