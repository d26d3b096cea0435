package supervisor

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file uses Landlock, which lets an unprivileged process give up rights. It detects the kernel's version of
// Landlock and sets rules on one thread. All processes that this thread forks keep the rules permanently.

// The versions of Landlock that added the features of a confinement.
const (
	landlockFiles   = 1
	landlockRefer   = 2 // without it, no file can move to another folder
	landlockCut     = 3 // truncation
	landlockDevices = 5 // control of devices
	landlockSignals = 6
	landlockNewest  = landlockSignals // the newest version that this file uses
)

// The rights to files by purpose.
const (
	mayRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	mayList = unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayUse  = mayRead | mayList | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	mayWrite = mayUse | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// all includes the rights to make device nodes, which no rule grants.
	all = mayWrite | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

	// ofFiles lists the rights that a rule for a file may have.
	ofFiles = mayUse &^ mayList
)

// LandlockFinding names Landlock among the features of a node.
const LandlockFinding = "landlock"

// Landlock returns the kernel's version of Landlock, or the reason why it has none.
func Landlock() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return int(version), nil
	case unix.ENOSYS:
		return 0, errors.New("the kernel has no Landlock: it was built without it or is older than Linux 5.13")
	case unix.EOPNOTSUPP:
		return 0, errors.New(
			"Landlock is not enabled: add landlock to lsm= in the kernel's command line",
		)
	}
	return 0, fmt.Errorf("Landlock: %w", errno)
}

// LandlockLacks returns the gaps of a confinement by this version.
func LandlockLacks(version int) []string {
	var lacks []string
	for _, part := range []struct {
		since int
		what  string
	}{
		{landlockCut, "readable files can be truncated (needs Linux 6.2)"},
		{landlockDevices, "readable devices can be controlled (needs Linux 6.10)"},
		{landlockSignals, "every process of the task's user can be signalled (needs Linux 6.12)"},
	} {
		if version < part.since {
			lacks = append(lacks, part.what)
		}
	}
	return lacks
}

// ruleset is a set of rules under construction.
type ruleset struct {
	fd      int
	handled uint64 // the rights that are denied unless a rule permits them
}

// newRuleset denies all rights that the version supports. Abstract sockets stay permitted, because the tasks of one
// gang on a node use them for NCCL.
func newRuleset(version int) (*ruleset, error) {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: all}
	for since, right := range map[int]uint64{
		landlockRefer: unix.LANDLOCK_ACCESS_FS_REFER, landlockCut: unix.LANDLOCK_ACCESS_FS_TRUNCATE,
		landlockDevices: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV,
	} {
		if version < since {
			attr.Handled_access_fs &^= right
		}
	}
	if version >= landlockSignals {
		attr.Scoped = unix.LANDLOCK_SCOPE_SIGNAL
	}
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), unsafe.Sizeof(attr), 0)
	if errno != 0 {
		return nil, fmt.Errorf("Landlock: create a ruleset: %w", errno)
	}
	unix.CloseOnExec(int(fd))
	return &ruleset{fd: int(fd), handled: attr.Handled_access_fs}, nil
}

func (r *ruleset) close() { unix.Close(r.fd) }

// allow adds rights to a file or to a folder with all its content.
func (r *ruleset) allow(fd int, rights uint64) error {
	err := r.add(fd, rights&r.handled)
	if err == unix.EINVAL { // It is no folder, and some of the rights are only for folders.
		err = r.add(fd, rights&r.handled&ofFiles)
	}
	return err
}

func (r *ruleset) add(fd int, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 && errno != unix.ENOMSG { // ENOMSG reports a rule without rights
		return errno
	}
	return nil
}

// restrictThread permanently sets the rules on the calling thread, which must be locked, and on all processes that it
// forks. The kernel requires no_new_privs, because a program that gains rights could otherwise be misled.
func (r *ruleset) restrictThread() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("Landlock: set no_new_privs: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("Landlock: restrict the thread: %w", errno)
	}
	return nil
}
