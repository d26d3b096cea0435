//go:build linux

package carapace

// This file starts a container from a Spec. The order is: claim, cgroups, namespaces and root, record, command. If a
// step fails, all steps before it are undone. maker.go makes the inside of the container, or detour.go without root.

import (
	"cmp"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
)

// Options holds the settings of a start that do not depend on the task.
type Options struct {
	// StateDir has one directory per living container. Empty: DefaultStateDir.
	StateDir string
	Cgroups  Cgroups
	// Executable is the binary that makes the container if this process is not root. Its main must call Reexec
	// first. Empty: the binary of this process.
	Executable string
	// Stdin, Stdout and Stderr are passed to the command unchanged; nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// OnEvent is called with every event, one at a time, and never after Wait has returned. It must not block.
	OnEvent func(Event)
	// StartTimeout bounds the set-up, because a mount may hang forever. Zero is one minute.
	StartTimeout time.Duration
}

// Cgroups says where the containers' groups are made.
type Cgroups struct {
	// Root is the mount point of the cgroups. Empty: /sys/fs/cgroup.
	Root string
	// Parent is the parent group of the containers' groups. An absolute path starts at the root of each hierarchy.
	// A relative path starts at the caller's own group, which suits a service with delegation. Empty: /synapse.
	Parent string
}

func (c Cgroups) filled() Cgroups {
	return Cgroups{cmp.Or(c.Root, defaultCgroupRoot), cmp.Or(c.Parent, defaultCgroupParent)}
}

// Folders returns the parent groups of the containers, one per hierarchy, whether they exist or not.
func (c Cgroups) Folders() []string { return c.leaves("") }

// Everywhere returns the group folders of a container that another program makes below an absolute parent. Such a
// program makes one in each hierarchy of v1, even if it sets nothing there.
func (c Cgroups) Everywhere(id string) []string {
	c = c.filled()
	group := filepath.Join("/", c.Parent, id)
	leaves := []string{filepath.Join(c.Root, group)}
	entries, _ := os.ReadDir(c.Root)
	for _, entry := range entries {
		if entry.IsDir() { // skips links such as cpu and cpuacct
			leaves = append(leaves, filepath.Join(c.Root, entry.Name(), group))
		}
	}
	return leaves
}

// leaves returns the folders of a container's groups, whether they exist or not.
func (c Cgroups) leaves(id string) []string {
	c = c.filled()
	found := findHierarchies(c.Root)
	controllers := append([]string{""}, v1Controllers...)
	if found.unified != "" {
		controllers = controllers[:1]
	}
	var leaves []string
	for _, controller := range controllers {
		there := found.by[controller]
		if controller == "" {
			there = cmp.Or(found.unified, found.beside)
		}
		if there == "" {
			continue
		}
		if parent, err := found.parent(controller, c.Parent); err == nil {
			leaves = append(leaves, filepath.Join(parent, id))
		}
	}
	slices.Sort(leaves)
	return slices.Compact(leaves)
}

// Start starts one container from the namespaces of this process, regardless of the calling thread's namespaces. It
// returns when the command runs, or with a *StartError. For an id that is in use, the error wraps ErrExists.
func Start(spec Spec, options Options) (*Container, error) {
	if err := spec.Validate(); err != nil {
		return nil, &StartError{CodeSetupFailed, "spec", err.Error(), fault.OfJob(err)}
	}
	spec = spec.filled()
	if spec.ID == "" {
		spec.ID = DrawID()
	}
	stateDir, err := filepath.Abs(cmp.Or(options.StateDir, DefaultStateDir()))
	if err != nil {
		return nil, fail("state directory", fault.OfMachine(err))
	}
	options.StateDir = stateDir
	options.StartTimeout = cmp.Or(options.StartTimeout, time.Minute)
	options.Cgroups = options.Cgroups.filled()

	dir, existed, err := take(options.StateDir, spec.ID)
	if err != nil {
		return nil, fail("claim "+spec.ID, fault.OfMachine(err))
	}
	if existed {
		if err := clearAway(dir, options.Cgroups); err != nil {
			_ = dir.lock.Close()
			return nil, fail("remove the remains of a dead container with this id", fault.OfMachine(err))
		}
	}
	c := &Container{spec: spec, options: options, dir: dir, done: make(chan struct{}), began: time.Now()}
	if failure := c.start(); failure != nil {
		return nil, failure
	}
	return c, nil
}

// DrawID returns a random id for a container without a name.
func DrawID() string {
	var random [6]byte
	_, _ = unix.Getrandom(random[:], 0) // After boot, so few bytes are always available.
	return "c" + hex.EncodeToString(random[:])
}

// start makes the container on a new thread, and waits until the command runs or a timeout passes.
func (c *Container) start() *StartError {
	answer := make(chan *StartError, 1)
	onOwnThread(func() {
		failure := c.make()
		c.closing.Lock()
		c.settled = true
		if c.expired {
			failure = c.tooLate()
		}
		c.closing.Unlock()
		if failure != nil {
			if c.making != nil {
				c.making.end()
			}
			go func() { // A new goroutine, because this thread may be in the container's namespaces.
				c.undo(failure)
				answer <- failure
			}()
			return
		}
		answer <- nil
		c.watch()
	})
	limit := time.NewTimer(c.options.StartTimeout)
	defer limit.Stop()
	select {
	case failure := <-answer:
		return failure
	case <-limit.C:
	}
	c.closing.Lock()
	if c.settled {
		c.closing.Unlock()
		return <-answer
	}
	c.expired = true
	if c.making != nil {
		c.making.stop()
	}
	c.closing.Unlock()
	return c.tooLate()
}

// tooLate returns the error of a start that timed out. If the hanging thread continues later, it undoes its work.
func (c *Container) tooLate() *StartError {
	return &StartError{
		CodeSetupFailed, "set-up",
		fmt.Sprintf("did not end within %v; check for a mount that hangs", c.options.StartTimeout),
		os.ErrDeadlineExceeded,
	}
}

// make makes the container and runs its command.
func (c *Container) make() *StartError {
	granted, err := grantedDevices(c.spec.Devices)
	if err != nil {
		return fail("devices", fault.OfMachine(err))
	}
	c.group = createGroup(findHierarchies(c.options.Cgroups.Root), c.options.Cgroups.Parent, c.spec,
		slices.Concat(plainDevices, terminals, granted))
	c.unenforced = slices.Clone(c.group.unenforced)
	if failure := c.checkRequired(); failure != nil {
		return failure
	}
	stdio, done, err := c.stdio()
	if err != nil {
		return fail("stdio", fault.OfMachine(err))
	}
	defer done()
	c.chooseMaking(c.order(granted), stdio)
	if failure := c.making.begin(); failure != nil {
		return failure
	}
	c.pid, c.pidfd = c.making.process()
	c.startTicks, _ = startTicks(c.pid)
	if err := c.dir.write(c.state()); err != nil {
		return fail("start", fault.OfMachine(fmt.Errorf("state: %w", err)))
	}
	c.tell(Event{Event: EventCreated, ID: c.spec.ID, Pid: c.pid, Unenforced: c.unenforced})
	unenforced, failure := c.making.run()
	if failure != nil {
		return failure
	}
	c.unenforced = append(c.unenforced, unenforced...)
	c.tell(Event{Event: EventStarted, ID: c.spec.ID, Unenforced: c.unenforced})
	return nil
}

// stdio returns the three streams. The caller calls done to close them when the command has them.
func (c *Container) stdio() (fds [3]uintptr, done func(), err error) {
	null, err := openFile(os.DevNull, unix.O_RDWR, 0)
	if err != nil {
		return fds, nil, err
	}
	files := [3]*os.File{c.options.Stdin, c.options.Stdout, c.options.Stderr}
	for i, file := range files {
		if fds[i] = uintptr(null); file != nil {
			fds[i] = file.Fd()
		}
	}
	return fds, func() {
		null.Close()
		runtime.KeepAlive(files)
	}, nil
}

// order returns the order for the maker.
func (c *Container) order(granted []deviceRule) *order {
	order := &order{Spec: c.spec, Base: c.dir.folder, Rootless: os.Geteuid() != 0, Views: c.group.leaves}
	for _, rule := range granted {
		order.Devices = append(order.Devices, node{rule.path, rule.mode(), unix.Mkdev(rule.major, rule.minor)})
	}
	if c.group.unified {
		order.Leaf = c.group.leaves[""]
		return order
	}
	order.Leaf = c.group.beside
	for _, leaf := range slices.Compact(slices.Sorted(maps.Values(c.group.leaves))) {
		order.Join = append(order.Join, filepath.Join(leaf, "tasks"))
	}
	return order
}

func (c *Container) chooseMaking(order *order, stdio [3]uintptr) {
	c.closing.Lock()
	defer c.closing.Unlock()
	if order.Rootless {
		c.making = newDetour(order, c.options.Executable, stdio)
	} else {
		c.making = newMaker(order, stdio)
	}
}

// checkRequired refuses the start if a limit is missing and the caller requires all limits.
func (c *Container) checkRequired() *StartError {
	if c.spec.Limits.Required && len(c.unenforced) > 0 {
		return &StartError{
			CodeSetupFailed, "limits.required", fmt.Sprintf("this node cannot enforce %q", c.unenforced), nil,
		}
	}
	return nil
}
