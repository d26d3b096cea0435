//go:build linux

// Start: from a Spec to a running command. The order is claim, cgroups, clone, order to init, its answer; each step that
// fails undoes the ones before it. What happens inside of the namespaces is init's (init.go).
package carapace

import (
	"bufio"
	"cmp"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Options are how and where a container is started, as far as the task has no say in it.
type Options struct {
	// StateDir holds one directory per living container. Empty: DefaultStateDir.
	StateDir string
	Cgroups  Cgroups
	// Executable is the binary that becomes init; its main must call Reexec first. Empty: this process's own.
	Executable string
	// Stdin, Stdout and Stderr are handed on as they are; nil is /dev/null.
	Stdin, Stdout, Stderr *os.File
	// OnEvent is called with every event, one at a time, and never after Wait has answered. It must not block.
	OnEvent func(Event)
	// StartTimeout bounds the set-up: a mount may hang for ever. Zero is a minute.
	StartTimeout time.Duration
}

// Cgroups is where containers' groups are made.
type Cgroups struct {
	// Root is where cgroups are mounted. Empty: /sys/fs/cgroup.
	Root string
	// Parent is the group above the containers': from the root of each hierarchy, or, if relative, below the caller's own
	// group, which is what a service with delegation wants. Empty: /synapse.
	Parent string
}

func (c Cgroups) filled() Cgroups {
	return Cgroups{cmp.Or(c.Root, defaultCgroupRoot), cmp.Or(c.Parent, defaultCgroupParent)}
}

// Folders are the groups above the containers', one in each hierarchy, whether they are there or not.
func (c Cgroups) Folders() []string { return c.leaves("") }

// leaves are the folders that a container's groups would have.
func (c Cgroups) leaves(id string) []string {
	c = c.filled()
	found := findHierarchies(c.Root)
	controllers := v1Controllers
	if found.unified != "" {
		controllers = []string{""}
	}
	var leaves []string
	for _, controller := range controllers {
		if found.unified == "" && found.by[controller] == "" {
			continue
		}
		if parent, err := found.parent(controller, c.Parent); err == nil {
			leaves = append(leaves, filepath.Join(parent, id))
		}
	}
	slices.Sort(leaves)
	return slices.Compact(leaves)
}

// initName is the first argument of the re-executed binary. Only Start calls it so, and only with a socket to talk over.
const initName = "carapace-init"

// Start starts one container. It answers when the command runs, or a *StartError (ErrExists inside, for a second start).
func Start(spec Spec, options Options) (*Container, error) {
	if err := spec.Validate(); err != nil {
		return nil, &StartError{CodeSetupFailed, "spec", err.Error(), err}
	}
	spec = spec.filled()
	if spec.ID == "" {
		spec.ID = drawID()
	}
	options.StateDir = cmp.Or(options.StateDir, DefaultStateDir())
	options.StartTimeout = cmp.Or(options.StartTimeout, time.Minute)
	options.Cgroups = options.Cgroups.filled()

	claim, existed, err := take(options.StateDir, spec.ID)
	if err != nil {
		return nil, &StartError{CodeSetupFailed, "claim " + spec.ID, err.Error(), err}
	}
	if existed {
		if err := clearAway(claim, options.Cgroups); err != nil {
			_ = claim.lock.Close()
			return nil, &StartError{CodeSetupFailed, "remove what a dead container of this id left", err.Error(), err}
		}
	}
	c := &Container{spec: spec, options: options, claim: claim, done: make(chan struct{}), began: time.Now(), socket: -1}
	if err := c.start(); err != nil {
		failure := &StartError{Code: CodeSetupFailed, Step: "start", Reason: err.Error(), Err: err}
		errors.As(err, &failure)
		c.undo(failure)
		return nil, failure
	}
	go c.watch()
	return c, nil
}

func drawID() string {
	var random [6]byte
	_, _ = unix.Getrandom(random[:], 0) // So few bytes are always there once the machine has booted.
	return "c" + hex.EncodeToString(random[:])
}

func (c *Container) start() error {
	base := filepath.Join(c.claim.folder, rootFile)
	if err := os.Mkdir(base, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	granted, err := grantedDevices(c.spec.Devices)
	if err != nil {
		return &StartError{CodeSetupFailed, "devices", err.Error(), err}
	}
	rootless := os.Geteuid() != 0
	c.group = createGroup(findHierarchies(c.options.Cgroups.Root), c.options.Cgroups.Parent, c.spec,
		slices.Concat(plainDevices, terminals, granted))
	c.unenforced = slices.Clone(c.group.unenforced)
	if err := c.checkRequired(); err != nil {
		return err
	}
	if err := c.spawn(rootless); err != nil {
		return err
	}
	if err := c.claim.write(c.state()); err != nil {
		return fmt.Errorf("state: %w", err)
	}
	c.tell(Event{Event: EventCreated, ID: c.spec.ID, Pid: c.pid, Unenforced: c.unenforced})
	if err := c.command(base, rootless, granted); err != nil {
		return err
	}
	c.tell(Event{Event: EventStarted, ID: c.spec.ID, Unenforced: c.unenforced})
	return nil
}

// checkRequired refuses where the caller would rather have no container than one without its limits.
func (c *Container) checkRequired() error {
	if c.spec.Limits.Required && len(c.unenforced) > 0 {
		return &StartError{CodeSetupFailed, "limits.required", fmt.Sprintf("this machine cannot enforce: %q", c.unenforced), nil}
	}
	return nil
}

// spawn clones init into its namespaces. It waits there for its order.
func (c *Container) spawn(rootless bool) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("socket: %w", err)
	}
	theirs := os.NewFile(uintptr(pair[1]), "init's end")
	defer theirs.Close()
	c.socket = channel(pair[0])

	binary, view, err := executable(c.options.Executable, rootless)
	if err != nil {
		return fmt.Errorf("own binary: %w", err)
	}
	if view >= 0 {
		defer unix.Close(view)
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	attributes := &syscall.ProcAttr{
		// Two processors are enough for an init, and every further one is another thread and its stack.
		Env:   []string{"GOMAXPROCS=2", "GOGC=off", "GOTRACEBACK=none"},
		Files: []uintptr{cmp.Or(c.options.Stdin, null).Fd(), cmp.Or(c.options.Stdout, null).Fd(), cmp.Or(c.options.Stderr, null).Fd(), theirs.Fd()},
		Sys:   c.attributes(rootless),
	}
	if view >= 0 {
		attributes.Files = append(attributes.Files, uintptr(view))
	}
	var leaf *os.File
	if c.spec.NoInit && c.group.unified && c.group.leaves[""] != "" {
		// The command takes init's place, so init is born where the command belongs.
		if leaf, err = os.Open(c.group.leaves[""]); err != nil {
			return err
		}
		defer leaf.Close()
		attributes.Sys.UseCgroupFD, attributes.Sys.CgroupFD = true, int(leaf.Fd())
	}
	c.pid, err = c.forkExec(binary, attributes)
	runtime.KeepAlive(c.options.Stdin)
	runtime.KeepAlive(c.options.Stdout)
	runtime.KeepAlive(c.options.Stderr)
	if err != nil {
		return &StartError{CodeSetupFailed, "create namespaces", err.Error(), err}
	}
	c.startTicks, _ = startTicks(c.pid)
	return nil
}

func (c *Container) attributes(rootless bool) *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS,
		// A session of its own: a Ctrl-C at our terminal reaches us alone, and goes on to the task once.
		Setsid: true,
		PidFD:  &c.pidfd,
	}
	if c.spec.Net == netNone {
		attributes.Cloneflags |= syscall.CLONE_NEWNET
	}
	if rootless {
		attributes.Cloneflags |= syscall.CLONE_NEWUSER
		attributes.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Geteuid(), Size: 1}}
		attributes.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getegid(), Size: 1}}
	}
	return attributes
}

// forkExec forks. Without an init nothing in the container could notice our death, so the kernel must: it sends the signal
// when the forking thread ends, hence that thread is kept for as long as the container lives.
func (c *Container) forkExec(binary string, attributes *syscall.ProcAttr) (int, error) {
	type result struct {
		pid int
		err error
	}
	forked := make(chan result, 1)
	fork := func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		var got result
		err := withSignalsBlocked(func() { got.pid, got.err = syscall.ForkExec(binary, []string{initName}, attributes) })
		if got.err == nil && err != nil {
			got.err = err
		}
		forked <- got
		if c.spec.NoInit && got.err == nil {
			<-c.done
		}
	}
	if c.spec.NoInit {
		go fork()
	} else {
		fork()
	}
	got := <-forked
	return got.pid, got.err
}

// executable answers a path to execute ourselves by. As root it is a read-only view of the binary: a task that is root
// itself could otherwise write to it through /proc/PID/exe, and be executed by us the next time. The view must be handed
// to the child as viewFd: a descriptor that is not handed on may be overwritten on the way to the exec.
func executable(path string, rootless bool) (string, int, error) {
	path = cmp.Or(path, "/proc/self/exe")
	if rootless {
		return path, -1, nil
	}
	handed := fmt.Sprintf("/proc/self/fd/%d", viewFd)
	view, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err == unix.EINVAL { // The binary lies in a mount of another namespace, or in none.
		view, err = sealedCopy(path)
		return handed, view, err
	}
	if err != nil {
		return "", -1, err
	}
	if err := setReadOnly(view, 0); err != nil {
		unix.Close(view)
		return "", -1, err
	}
	return handed, view, nil
}

// sealedCopy is a copy of the binary in memory that nobody can write to. It takes some milliseconds more than a view.
func sealedCopy(path string) (int, error) {
	from, err := os.Open(path)
	if err != nil {
		return -1, err
	}
	defer from.Close()
	fd, err := unix.MemfdCreate("carapace", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return -1, err
	}
	to := os.NewFile(uintptr(fd), "copy of the binary")
	defer to.Close()
	if _, err := io.Copy(to, from); err != nil {
		return -1, err
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(to.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		return -1, err
	}
	return unix.FcntlInt(to.Fd(), unix.F_DUPFD_CLOEXEC, 0)
}

// command gives init its order and waits for the answer.
func (c *Container) command(base string, rootless bool, granted []deviceRule) error {
	if err := c.socket.bound(c.options.StartTimeout); err != nil {
		return fmt.Errorf("socket of init: %w", err)
	}
	order := order{Spec: c.spec, Base: base, Rootless: rootless, Views: c.group.leaves}
	for _, rule := range granted {
		order.Devices = append(order.Devices, node{rule.path, rule.mode(), unix.Mkdev(rule.major, rule.minor)})
	}
	if c.group.unified {
		order.Leaf = c.group.leaves[""]
	} else {
		for _, leaf := range c.group.folders() {
			order.Join = append(order.Join, filepath.Join(leaf, "tasks"))
		}
		order.PidsFile, order.Back = c.group.pidsFile, c.group.back
	}
	if err := send(c.socket, order); errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return c.mourn(err)
	} else if err != nil {
		return fmt.Errorf("order to init: %w", err)
	}
	c.reports = bufio.NewReader(c.socket)
	var answer report
	err := receive(c.reports, &answer)
	switch {
	case c.spec.NoInit && errors.Is(err, io.EOF):
		return c.limitPidsNow() // The command's exec closed the socket.
	case errors.Is(err, os.ErrDeadlineExceeded):
		return &StartError{CodeSetupFailed, "set-up", fmt.Sprintf("did not end within %v; does a mount hang?", c.options.StartTimeout), err}
	case err != nil:
		return c.mourn(err)
	case answer.Kind == reportFailed:
		return &StartError{Code: answer.Code, Step: answer.Step, Reason: answer.Reason}
	}
	c.unenforced = append(c.unenforced, answer.Unenforced...)
	return c.socket.bound(0)
}

// mourn is for an init that died of its set-up: killed, as a rule, by one who wanted the container gone.
func (c *Container) mourn(err error) error {
	unix.Kill(c.pid, unix.SIGKILL) // It closed its socket, or lost its reason; it is not coming back.
	status, _ := c.reap()
	c.pid = 0
	if status.Signaled() {
		return &StartError{codeSignal + int(status.Signal()), "set-up", "killed before the command ran", err}
	}
	return &StartError{CodeSetupFailed, "set-up", fmt.Sprintf("init ended with code %d before the command ran", status.ExitStatus()), err}
}

// limitPidsNow sets the limit of processes of a v2 group that init was born in, now that its threads have ended.
func (c *Container) limitPidsNow() error {
	leaf := c.group.leaves[""]
	if leaf == "" || c.spec.Limits.Pids == 0 || !slices.Contains(c.group.controllers, "pids") {
		return nil
	}
	return writeFile(leaf, "pids.max", fmt.Sprint(c.spec.Limits.Pids))
}
