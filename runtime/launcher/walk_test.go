package launcher

import (
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/tree"
)

// TestEffort checks that endless urgent walks get two seconds of a processor at once, and the stated share in the long
// run, in any division. After a pause they get the two seconds again.
func TestEffort(t *testing.T) {
	now := time.Now()
	var e effort
	run := func(length time.Duration) (worked, atOnce time.Duration) {
		rested := false
		for end := now.Add(length); now.Before(end); {
			now, worked = now.Add(workFor), worked+workFor
			if !rested {
				atOnce += workFor
			}
			if !e.spend(now, workFor) {
				now, rested = now.Add(restFor), true
			}
		}
		return worked, atOnce
	}
	for _, pause := range []time.Duration{0, time.Minute} {
		now = now.Add(pause)
		worked, atOnce := run(100 * time.Second)
		if share := worked - maxEffort; share < 20*time.Second || share > 30*time.Second {
			t.Errorf("of 100 seconds walks worked for %v", worked)
		}
		if atOnce < maxEffort || atOnce > 2*maxEffort {
			t.Errorf("they worked for %v at once", atOnce)
		}
	}
}

// TestAllowance checks the disk limit of a task for different requests and disks.
func TestAllowance(t *testing.T) {
	const gi = 1 << 30
	large := space{
		size: tree.Usage{Bytes: 9000 * gi, Files: 500 << 20}, free: tree.Usage{Bytes: 4000 * gi, Files: 400 << 20},
	}
	small := space{size: tree.Usage{Bytes: gi, Files: 1 << 16}, free: tree.Usage{Bytes: gi, Files: 1 << 16}}
	for _, c := range []struct {
		on    space
		asked int64
		want  tree.Usage
	}{
		{large, 0, tree.Usage{Bytes: 400 * gi, Files: defaultFiles}},
		{large, 100 * gi, tree.Usage{Bytes: 100 * gi, Files: 100 * gi / bytesPerFile}},
		{large, gi, tree.Usage{Bytes: gi, Files: defaultFiles}},
		{large, 9000 * gi, tree.Usage{Bytes: 9000 * gi, Files: 400 << 20}},
		{small, 0, tree.Usage{Bytes: gi / 10, Files: 1 << 16 / 10}},
		{small, 4 * gi, tree.Usage{Bytes: 4 * gi, Files: 1 << 16}},
		{space{}, 0, tree.Usage{Bytes: leastBytes, Files: leastFiles}},
	} {
		if got := c.on.allowance(&messages.JobSpec{DiskBytes: c.asked}); got != c.want {
			t.Errorf("of %v free, %d asked: %v, want %v", c.on.free, c.asked, got, c.want)
		}
	}
}

// TestWhoseDisk checks when tasks must end because of a full disk, and when others have filled the disk.
func TestWhoseDisk(t *testing.T) {
	const mi = 1 << 20
	for _, c := range []struct {
		free, held   int64 // of 100 GiB
		full, others bool
	}{
		{6000 * mi, 80_000 * mi, false, false},
		{5000 * mi, 80_000 * mi, true, false},
		{0, 65 * mi, true, false},
		{0, 64 * mi, false, true},
		{0, 0, false, true},
		{2000 * mi, 1000 * mi, false, false}, // they leave half of the space available to them
		{1000 * mi, 2000 * mi, true, false},
	} {
		s := space{size: tree.Usage{Bytes: 100 << 30, Files: 1 << 20}, free: tree.Usage{Bytes: c.free, Files: 1 << 20}}
		held := tree.Usage{Bytes: c.held, Files: 1000}
		if s.full(held) != c.full || s.others(held) != c.others {
			t.Errorf("%d MiB free, %d held: full %v, others' %v", c.free>>20, c.held>>20, s.full(held), s.others(held))
		}
	}
}

// TestCalm checks that walks are rare only while the free space of the disk stays about the same.
func TestCalm(t *testing.T) {
	w := &watch{}
	k := &walk{w: w, found: tree.Usage{Bytes: 1 << 30, Files: 1 << 20}}
	for _, c := range []struct {
		bytes, files int64
		calm         bool
	}{
		{0, 0, true}, {calmBytes - 1, 0, true}, {1 - calmBytes, 1 - calmFiles, true},
		{calmBytes, 0, false}, {-calmBytes, 0, false}, {0, calmFiles, false}, {0, -calmFiles, false},
	} {
		w.free.Store(&tree.Usage{Bytes: k.found.Bytes + c.bytes, Files: k.found.Files + c.files})
		if k.calm() != c.calm {
			t.Errorf("after a change by %d bytes and %d files, calm is %v", c.bytes, c.files, !c.calm)
		}
	}
}
