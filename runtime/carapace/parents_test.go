package carapace_test

import (
	"errors"
	"io/fs"
	"os"
	"sync"
	"testing"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/test/able"
)

// TestParentsAreHeldByName checks that a holder of the groups of one name does not block the groups of another name.
func TestParentsAreHeldByName(t *testing.T) {
	able.Need(t, able.Containers)
	held, other := carapace.Cgroups{Parent: "/" + carapace.DrawID()}, carapace.Cgroups{Parent: "/" + carapace.DrawID()}
	gone := func(c carapace.Cgroups) bool {
		for _, folder := range c.Folders() {
			if _, err := os.Stat(folder); !errors.Is(err, fs.ErrNotExist) {
				return false
			}
		}
		return true
	}
	nothing := t.TempDir()
	remove := func(c carapace.Cgroups) {
		if _, err := carapace.GC(nothing, c); err != nil {
			t.Error(err)
		}
	}
	release := carapace.HoldParents(held)
	for _, c := range []carapace.Cgroups{held, other} {
		for _, folder := range c.Folders() {
			if err := os.MkdirAll(folder, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		remove(c)
	}
	if gone(held) || !gone(other) {
		t.Errorf("held ones have gone: %v, others have gone: %v", gone(held), gone(other))
	}
	release()
	if remove(held); !gone(held) {
		t.Error("what was held is left")
	}
}

// TestParentsComeAndGo checks that a folder that is removed and made again while others lock it never has two holders.
func TestParentsComeAndGo(t *testing.T) {
	able.Need(t, able.Containers)
	c := carapace.Cgroups{Parent: "/" + carapace.DrawID()}
	nothing := t.TempDir()
	var holders sync.WaitGroup
	for range 4 {
		holders.Go(func() {
			for range 50 {
				release := carapace.HoldParents(c)
				for _, folder := range c.Folders() {
					_ = os.MkdirAll(folder, 0o755)
				}
				for _, folder := range c.Folders() {
					if _, err := os.Stat(folder); err != nil {
						t.Error(err)
					}
				}
				release()
				if _, err := carapace.GC(nothing, c); err != nil {
					t.Error(err)
				}
			}
		})
	}
	holders.Wait()
}

// TestChecksDoNotDisturbEachOther checks that several agents which start at once find the same features. Each check
// removes the empty parent groups, which another check may be filling.
func TestChecksDoNotDisturbEachOther(t *testing.T) {
	able.Need(t, able.Containers)
	c := carapace.Cgroups{Parent: "/" + carapace.DrawID()}
	missing := func() map[string]string {
		all := map[string]string{}
		for _, f := range carapace.Check(c) {
			if !f.OK {
				all[f.Name] = f.Reason
			}
		}
		return all
	}
	alone := missing()
	var checks sync.WaitGroup
	for range 4 {
		checks.Go(func() {
			for range 15 {
				for name, reason := range missing() {
					if alone[name] == "" {
						t.Errorf("%s: %s", name, reason)
					}
				}
			}
		})
	}
	checks.Wait()
}
