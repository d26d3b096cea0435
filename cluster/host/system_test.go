package host

import (
	"fmt"
	"testing"

	"github.com/asynkron/protoactor-go/actor"
)

// A smaller registry finds whom the library's finds: those it had entered
// itself, and all that come and go later.
func TestSmallRegistryFindsEverybody(t *testing.T) {
	lost := 0
	system := NewSystem(func() { lost++ })
	for _, name := range []string{"eventstream", "deadletter"} {
		if _, there := system.ProcessRegistry.GetLocal(name); !there {
			t.Errorf("%s is not found", name)
		}
	}
	var all []*actor.PID
	for i := range 10 * buckets {
		pid, err := system.Root.SpawnNamed(actor.PropsFromFunc(func(actor.Context) {}), fmt.Sprint("a", i))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, pid)
	}
	if _, err := system.Root.SpawnNamed(actor.PropsFromFunc(func(actor.Context) {}), "a7"); err == nil {
		t.Error("a name was given twice")
	}
	for _, pid := range all {
		if _, there := system.ProcessRegistry.GetLocal(pid.Id); !there {
			t.Errorf("%s is not found", pid.Id)
		}
		if err := system.Root.StopFuture(pid).Wait(); err != nil {
			t.Fatal(err)
		}
		if _, there := system.ProcessRegistry.GetLocal(pid.Id); there {
			t.Errorf("%s is still found after its end", pid.Id)
		}
	}
	system.Root.Send(all[0], "nobody is here")
	if lost == 0 {
		t.Error("what was sent to nobody was not told")
	}
}
