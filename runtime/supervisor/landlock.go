package supervisor

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file owns Landlock, the kernel's way for a process without privilege to give up rights: what of it this kernel
// has, and a set of rules that is put on one thread. What is forked from that thread has the rules for good.

// The versions of Landlock that brought what a confinement is made of.
const (
	landlockFiles   = 1
	landlockRefer   = 2 // before it no file goes from one folder to another
	landlockCut     = 3 // truncation
	landlockDevices = 5 // control of devices
	landlockSignals = 6
	landlockNewest  = landlockSignals // that anything here makes use of
)

// The rights to files, by what they are for.
const (
	mayRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_EXECUTE
	mayList = unix.LANDLOCK_ACCESS_FS_READ_DIR
	mayUse  = mayRead | mayList | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	mayWrite = mayUse | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_MAKE_SOCK |
		unix.LANDLOCK_ACCESS_FS_MAKE_FIFO | unix.LANDLOCK_ACCESS_FS_MAKE_SYM | unix.LANDLOCK_ACCESS_FS_REFER
	// all: a device node is made nowhere.
	all = mayWrite | unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK

	// ofFiles are those that a rule for anything but a folder may have.
	ofFiles = mayUse &^ mayList
)

// LandlockFinding is its name among what a machine can enforce.
const LandlockFinding = "landlock"

// Landlock answers which version the kernel has, or why it has none.
func Landlock() (int, error) {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch errno {
	case 0:
		return int(version), nil
	case unix.ENOSYS:
		return 0, errors.New("the kernel was built without Landlock, or is older than Linux 5.13")
	case unix.EOPNOTSUPP:
		return 0, errors.New(
			"Landlock is not among the kernel's security modules: add it to lsm= of the kernel's command line",
		)
	}
	return 0, fmt.Errorf("Landlock: %w", errno)
}

// LandlockLacks says what a confinement by this version leaves open.
func LandlockLacks(version int) []string {
	var lacks []string
	for _, part := range []struct {
		since int
		what  string
	}{
		{landlockCut, "files that may be read may be cut short (Linux 6.2)"},
		{landlockDevices, "devices that may be read may be controlled (Linux 6.10)"},
		{landlockSignals, "every process of the task's user may be signalled (Linux 6.12)"},
	} {
		if version < part.since {
			lacks = append(lacks, part.what)
		}
	}
	return lacks
}

// ruleset is a set of rules that is being made.
type ruleset struct {
	fd      int
	handled uint64 // what is denied where no rule allows it
}

// newRuleset handles all that the version knows. Abstract sockets stay open to all: the ranks of one gang on a machine
// are tasks of their own, and NCCL lets them meet there.
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
		return nil, fmt.Errorf("Landlock: make a set of rules: %w", errno)
	}
	unix.CloseOnExec(int(fd))
	return &ruleset{fd: int(fd), handled: attr.Handled_access_fs}, nil
}

func (r *ruleset) close() { unix.Close(r.fd) }

// allow adds rights to what a descriptor is of, and to all below it.
func (r *ruleset) allow(fd int, rights uint64) error {
	err := r.add(fd, rights&r.handled)
	if err == unix.EINVAL { // It is no folder, and some of the rights are for folders alone.
		err = r.add(fd, rights&r.handled&ofFiles)
	}
	return err
}

func (r *ruleset) add(fd int, rights uint64) error {
	rule := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: int32(fd)}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 && errno != unix.ENOMSG { // which is for a rule that allows nothing
		return errno
	}
	return nil
}

// restrictThread puts the rules on the calling thread, which must be locked, and on all that it forks, for ever. The
// kernel asks in return that none of them gains rights by executing a program, or else such a program could be misled.
func (r *ruleset) restrictThread() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("Landlock: no new privileges: %w", err)
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(r.fd), 0, 0); errno != 0 {
		return fmt.Errorf("Landlock: %w", errno)
	}
	return nil
}
