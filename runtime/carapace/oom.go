//go:build linux

package carapace

// This file reports an out-of-memory kill when it happens. The event may be lost, so the kills are counted again at the
// end.

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// watchOOM sends the oom event as soon as the kernel reports it. It returns a function that stops watching.
func (c *Container) watchOOM() (stop func()) {
	if c.options.OnEvent == nil {
		return func() {}
	}
	source, err := c.group.oomSource()
	if err != nil {
		return func() {}
	}
	var listening sync.WaitGroup
	listening.Go(func() {
		var event [4096]byte
		for {
			if _, err := source.Read(event[:]); err != nil {
				return
			}
			// v1 reports before it kills. v2 reports any change of the counters.
			if !c.group.unified || c.group.oomKills() > 0 {
				c.tell(Event{Event: EventOOM, ID: c.spec.ID})
				return
			}
		}
	})
	return func() {
		source.Close() // wakes the reader
		listening.Wait()
	}
}

// oomSource returns a file that becomes readable when memory runs out.
func (g *cgroup) oomSource() (*os.File, error) {
	if g.unified {
		fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
		if err != nil {
			return nil, err
		}
		source := os.NewFile(uintptr(fd), "memory.events")
		if _, err := unix.InotifyAddWatch(fd, filepath.Join(g.leaves[""], "memory.events"), unix.IN_MODIFY); err != nil {
			source.Close()
			return nil, err
		}
		return source, nil
	}
	control, err := openFile(filepath.Join(g.leaves["memory"], "memory.oom_control"), unix.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	if err := writeFile(g.leaves["memory"], "cgroup.event_control", fmt.Sprintf("%d %d", fd, control)); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), "oom"), nil
}

// The scopes of an out-of-memory kill.
const (
	OOMTask   = "task"   // the group's own limit
	OOMParent = "parent" // the limit of a group above
	OOMHost   = "host"   // the memory of the host
)

// OOMScope returns whose memory limit the kernel enforced when it killed a process in one of the groups. It compares
// the counters of the group and of the groups above. On v1 the counters also grow when the kernel reclaims memory at a
// limit, so the kernel log is better evidence.
func OOMScope(leaves []string) string {
	for _, leaf := range leaves {
		if hits(leaf) {
			return OOMTask
		}
	}
	for _, leaf := range leaves {
		for above := filepath.Dir(leaf); isGroup(above); above = filepath.Dir(above) {
			if limited(above) && hits(above) {
				return OOMParent
			}
		}
	}
	return OOMHost
}

// hits reports whether a group has reached its own memory limit.
func hits(group string) bool {
	return readWord(filepath.Join(group, "memory.events.local"), "oom") > 0 ||
		readNumber(filepath.Join(group, "memory.failcnt")) > 0 ||
		readNumber(filepath.Join(group, "memory.memsw.failcnt")) > 0
}

// limited reports whether a group has a memory limit.
func limited(group string) bool {
	const unlimited = 1 << 60 // v1 writes the largest multiple of the page size
	text, err := readFile(filepath.Join(group, "memory.max"))
	if err == nil {
		return strings.TrimSpace(string(text)) != "max"
	}
	limit := readNumber(filepath.Join(group, "memory.limit_in_bytes"))
	return limit > 0 && limit < unlimited
}

// isGroup reports whether a folder is a group, and not the root of a hierarchy or above it.
func isGroup(folder string) bool {
	_, err := os.Stat(filepath.Join(filepath.Dir(folder), "cgroup.procs"))
	return err == nil
}

// memoryLeaves returns the group's folder that counts memory.
func (g *cgroup) memoryLeaves() []string {
	if g.unified {
		return []string{g.leaves[""]}
	}
	return []string{g.leaves["memory"]}
}
