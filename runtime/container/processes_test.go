//go:build linux

package container

import "testing"

// TestProcesses checks the shares of process ids. The host keeps a tenth, and at least 1,024. A task gets a share of
// the rest by its processors, at least 4,096, and never more than all tasks have.
func TestProcesses(t *testing.T) {
	for _, c := range []struct{ numbers, want int64 }{
		{4 << 20, 4<<20 - 419430}, {32768, 29492}, {10240, 9216}, {5000, 3976}, {1500, 750}, {2, 1}, {1, 1},
	} {
		if got := forTasks(c.numbers); got != c.want {
			t.Errorf("of %d numbers tasks have %d, want %d", c.numbers, got, c.want)
		}
	}
	for _, c := range []struct{ all, milliCPU, machine, want int64 }{
		{100_000, 8000, 64_000, 12_500}, {100_000, 1000, 64_000, 4096}, {100_000, 0, 64_000, 4096},
		{100_000, 64_000, 64_000, 100_000}, {100_000, 128_000, 64_000, 100_000}, {3000, 1000, 4000, 3000},
		{4 << 20, 1_000_000, 1_000_000, 4 << 20},
	} {
		if got := processesOf(c.all, c.milliCPU, c.machine); got != c.want {
			t.Errorf("%d of %d: %d, want %d", c.milliCPU, c.machine, got, c.want)
		}
	}
	all := processes()
	if all < 1 || all > mostPids {
		t.Errorf("all tasks have %d", all)
	}
}
