//go:build linux

package carapace

// This file reports an out-of-memory kill when it happens. The event may be lost, so the kills are counted again at the
// end.

import (
	"fmt"
	"os"
	"path/filepath"
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
