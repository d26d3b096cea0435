package health

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// TestMain runs this test binary as the process that checks file systems, if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == SubCommand {
		os.Exit(Main(os.Args[2:]))
	}
	soon = pace.Of(soon) // a child of this binary measures nothing
	os.Exit(m.Run())
}

var soon = 30 * time.Second

// told returns the next report of a Runner.
func told(t *testing.T, of <-chan *messages.MachineHealth) *messages.MachineHealth {
	t.Helper()
	select {
	case h := <-of:
		return h
	case <-time.After(soon):
		t.Fatal("nothing is reported")
		return nil
	}
}

// TestRunner checks that the checks of the start come first. A failed check closes the node with its message and is
// repeated, and the same check opens the node again. A hanging check delays no other occasion.
func TestRunner(t *testing.T) {
	var ails atomic.Bool
	ails.Store(true)
	hangs := make(chan struct{})
	all := make(chan *messages.MachineHealth, 16)
	r := New(Options{
		Again: time.Millisecond,
		Tell:  func(h *messages.MachineHealth) { all <- h },
		Checks: []Check{
			{Name: "fabric", When: Join | Prepare, Look: func(context.Context) (<-chan struct{}, error) {
				if ails.Load() {
					return nil, errors.New("a port is down")
				}
				return nil, nil
			}},
			{Name: "slow", When: Failure, Look: func(ctx context.Context) (<-chan struct{}, error) {
				select {
				case <-hangs:
				case <-ctx.Done():
				}
				return nil, nil
			}},
		},
	})
	defer r.Close()
	r.Show(func(h *messages.MachineHealth) {
		if !h.Pending || !h.BeforeWork || !h.AfterFailure || h.Unwell != "" {
			t.Errorf("before anything was checked: %v", h)
		}
	})
	r.Begin()
	if h := told(t, all); h.Unwell != "fabric: a port is down" {
		t.Fatalf("%v", h)
	}
	failure := make(chan bool, 1)
	go r.Run(Failure, func(*messages.MachineHealth) { failure <- true })
	work := make(chan *messages.MachineHealth, 1)
	r.Run(Prepare, func(h *messages.MachineHealth) { work <- h })
	if h := told(t, work); h.Unwell == "" || h.Pending {
		t.Errorf("before work: %v", h)
	}
	ails.Store(false)
	for h := told(t, all); h.Unwell != ""; h = told(t, all) {
	}
	select {
	case <-failure:
		t.Error("it did not hang")
	default:
	}
	close(hangs)
	<-failure
}

// TestRepeatedUntilWell checks that a failed check is repeated until it passes, and that its result is reported only
// when it changes.
func TestRepeatedUntilWell(t *testing.T) {
	const fails = 5
	all, runs := make(chan *messages.MachineHealth, 16), 0
	r := New(Options{
		Again: time.Millisecond, Tell: func(h *messages.MachineHealth) { all <- h },
		Checks: []Check{{Name: "fabric", When: Join | Prepare, Look: func(context.Context) (<-chan struct{}, error) {
			if runs++; runs <= fails {
				return nil, errors.New("a port is down")
			}
			return nil, nil
		}}},
	})
	defer r.Close()
	r.Begin()
	var found []string
	for len(found) == 0 || found[len(found)-1] != "" {
		found = append(found, told(t, all).Unwell)
	}
	for range 3 {
		r.Run(Prepare, func(*messages.MachineHealth) {})
	}
	if len(all) > 0 || len(found) < 2 || len(found) > 3 || runs != fails+1+3 { // the agent's start is always reported
		t.Errorf("%d runs, reported %q and %d more", runs, found, len(all))
	}
}

// TestStuck checks that a check is not started again while an earlier run cannot be killed.
func TestStuck(t *testing.T) {
	gone, runs := make(chan struct{}), 0
	r := New(Options{Again: time.Hour, Tell: func(*messages.MachineHealth) {}, Checks: []Check{
		{Name: "disk", When: Prepare, Look: func(context.Context) (<-chan struct{}, error) {
			if runs++; runs == 1 {
				return gone, errors.New("it did not end")
			}
			return nil, nil
		}},
	}})
	defer r.Close()
	r.Begin()
	look := func() (unhealthy string) {
		r.Run(Prepare, func(h *messages.MachineHealth) { unhealthy = h.Unwell })
		return unhealthy
	}
	for _, want := range []string{"disk: it did not end", "disk: an earlier run hangs and cannot be killed"} {
		if got := look(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	close(gone)
	if got := look(); got != "" || runs != 2 {
		t.Errorf("%q after %d runs", got, runs)
	}
}

// TestBuiltIn checks that each check finds its planted fault, and passes on a healthy node.
func TestBuiltIn(t *testing.T) {
	root, self := t.TempDir(), os.Args[0]
	put := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("proc/meminfo", "MemTotal:       1048576 kB\nMemFree: 5 kB\n")
	put("sys/class/infiniband/mlx5_0/ports/1/state", "4: ACTIVE\n")
	put("sys/class/infiniband/mlx5_1/ports/1/state", "1: DOWN\n")
	clock := func(off time.Duration) func(context.Context) (<-chan struct{}, error) {
		return Clock(5*time.Second, func(context.Context) (time.Duration, error) { return off, nil })
	}
	for name, c := range map[string]struct {
		look func(context.Context) (<-chan struct{}, error)
		want string
	}{
		"memory":          {Memory(root, 1<<30), ""},
		"too few modules": {Memory(root, 2<<30), "the node has 1024 MiB of memory, but 2048 are required"},
		"no memory":       {Memory(t.TempDir(), 1), "no such file"},
		"clock":           {clock(-4 * time.Second), ""},
		"clock behind":    {clock(-6 * time.Second), "by -6s from the scheduler's, but only 5s are allowed"},
		"port":            {Ports(root, []string{"mlx5_0"}), ""},
		"port down":       {Ports(root, nil), "port 1 of mlx5_1 is 1: DOWN"},
		"card lost":       {Ports(root, []string{"mlx5_2"}), "mlx5_2 is missing"},
		"no card":         {Ports(t.TempDir(), nil), "no InfiniBand card found"},
		"mount":           {Mounted(self, "/proc", soon), ""},
		"mount lost":      {Mounted(self, root, soon), "exit status 1: nothing is mounted at " + root},
		"disk":            {Disk(self, root, 1, soon), ""},
		"disk full":       {Disk(self, root, 1<<60, soon), "MiB free, but 1099511627776 are required"},
		"disk lost":       {Disk(self, root+"/nosuch", 1, soon), "no such file"},
		"disk read-only":  {Disk(self, "/proc", 0, soon), "exit status 1"},
	} {
		gone, err := c.look(context.Background())
		if gone != nil || c.want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
