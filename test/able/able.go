// Package able reports which tests this host supports. It is the only place that finds this out. A test names the
// abilities that it needs. If the host lacks one, the test is skipped with the missing ability, instead of failing
// later with an unrelated error. The package is only for tests, and must never decide anything in a program.
package able

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
)

// Ability is one ability of a host. It is tried once in each test binary.
type Ability struct {
	what string
	try  func() error
}

func ability(what string, try func() error) *Ability {
	return &Ability{what: what, try: sync.OnceValue(try)}
}

// Lacks returns why this host lacks the ability, or nil.
func (a *Ability) Lacks() error {
	if err := a.try(); err != nil {
		return fmt.Errorf("this host cannot %s: %w", a.what, err)
	}
	return nil
}

// Need skips a test on a host that lacks one of the abilities.
func Need(t testing.TB, all ...*Ability) {
	t.Helper()
	for _, a := range all {
		if err := a.Lacks(); err != nil {
			t.Skip(err)
		}
	}
}

var (
	// Root is the ability of an agent to choose the user of its tasks.
	Root = ability("be root", tryRoot)
	// Containers is the ability to run a container of carapace with all its restrictions.
	Containers = ability("make containers", tryContainers)
	// Cgroups is the ability to create a container's own cgroup in every hierarchy, with each limit.
	Cgroups = ability("limit by cgroups", tryCgroups)
	// Mounts is the ability to mount a file system that the whole host sees.
	Mounts = ability("mount a file system", tryMount)
	// Strangers is the ability to inspect the open files and directories of a process that root started as another
	// user. Tests that do not run as root start only processes of their own user.
	Strangers = ability("look into other users' processes (SYS_PTRACE)", tryStrangers)
	// Slack is the ability to set how late another thread may wake.
	Slack = ability("set another thread's timer slack (SYS_NICE)", func() error { return capable(unix.CAP_SYS_NICE) })
	// Networks is the ability to create network namespaces, such as those of test nodes that can be cut off.
	Networks = ability("make networks of its own", tryNetwork)
	// Bridges is the ability to connect several networks.
	Bridges = ability("join networks by a bridge", tryBridge)
	// Nesting is the ability to create user namespaces. Containers without root need them, and a chroot or an
	// engine may forbid them.
	Nesting = ability("make user namespaces", tryNesting)
	// OwnRoot is the ability to run a container whose root is not root on the host.
	OwnRoot = ability("show files under other users' numbers", tryOwnRoot)
	// Freezer is a v1 cgroup that stops processes, to simulate processes that hang in the kernel.
	Freezer = ability("freeze processes by a v1 cgroup", tryFreezer)
)

// Program returns the ability to run a program.
func Program(name string) *Ability {
	return ability("run "+name, func() error {
		_, err := exec.LookPath(name)
		return err
	})
}

func tryRoot() error {
	if uid := os.Geteuid(); uid != 0 {
		return fmt.Errorf("the tests run as user %d", uid)
	}
	return nil
}

func tryStrangers() error {
	if os.Geteuid() != 0 {
		return nil
	}
	return capable(unix.CAP_SYS_PTRACE)
}

// capable reports whether this process has a capability.
func capable(number int) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var sets [2]unix.CapUserData
	if err := unix.Capget(&header, &sets[0]); err != nil {
		return err
	}
	if sets[number/32].Effective&(1<<(number%32)) == 0 {
		return unix.EPERM
	}
	return nil
}

// tryContainers runs one, because restrictions depend on kernel, engine and policy and only a real container shows
// them.
func tryContainers() error {
	if err := tryRoot(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "able-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	cgroups := carapace.Cgroups{Parent: groupName()}
	options := carapace.Options{StateDir: filepath.Join(folder, "state"), Cgroups: cgroups}
	container, err := carapace.Start(carapace.Spec{Rootfs: "host", Command: []string{"true"}}, options)
	if err == nil {
		if exit := container.Wait(); exit.Code != 0 {
			err = fmt.Errorf("the program true ended with %d in a container", exit.Code)
		}
	}
	return errors.Join(err, Sweep(options.StateDir, cgroups))
}

// Sweep removes the remains of containers, and their parent cgroups, which exist as long as any process on this host
// creates a container.
func Sweep(stateDir string, cgroups carapace.Cgroups) error {
	for tries := 0; ; tries++ {
		_, err := carapace.GC(stateDir, cgroups)
		left := slices.ContainsFunc(cgroups.Folders(), func(folder string) bool {
			_, err := os.Stat(folder)
			return err == nil
		})
		if err != nil || !left || tries > 500 {
			return err
		}
		time.Sleep(10 * time.Millisecond)
	}
}

func tryOwnRoot() error {
	if err := tryContainers(); err != nil {
		return err
	}
	folder, err := os.MkdirTemp("", "able-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	return carapace.TryIDs(folder)
}

func tryCgroups() error {
	for _, finding := range carapace.Check(carapace.Cgroups{Parent: groupName()}) {
		switch finding.Name {
		case "cgroups", "memory limit", "pids limit", "cpu limit", "cpuset", "devices":
			if !finding.OK {
				return fmt.Errorf("%s: %s", finding.Name, finding.Reason)
			}
		}
	}
	return nil
}

// groupName returns a parent for cgroups that no other test process uses.
func groupName() string { return fmt.Sprintf("/able-%d", os.Getpid()) }

func tryMount() error {
	folder, err := os.MkdirTemp("", "able-")
	if err != nil {
		return err
	}
	defer os.Remove(folder)
	if err := unix.Mount("tmpfs", folder, "tmpfs", 0, "size=64k"); err != nil {
		return err
	}
	return unix.Unmount(folder, 0)
}

func tryNetwork() error { return tryNamespace(syscall.CLONE_NEWNET) }

func tryBridge() error {
	out, err := exec.Command("unshare", "--net", "ip", "link", "add", "able0", "type", "bridge").CombinedOutput()
	if err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	return nil
}

func tryNesting() error { return tryNamespace(syscall.CLONE_NEWUSER) }

func tryNamespace(flag uintptr) error {
	child := exec.Command("true")
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: flag}
	return child.Run()
}

func tryFreezer() error {
	const freezer = "/sys/fs/cgroup/freezer"
	if _, err := os.Stat(filepath.Join(freezer, "cgroup.procs")); err != nil {
		return err
	}
	group := filepath.Join(freezer, groupName())
	if err := os.Mkdir(group, 0o755); err != nil {
		return err
	}
	return os.Remove(group)
}
