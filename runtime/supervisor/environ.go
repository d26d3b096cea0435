package supervisor

import (
	"errors"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file owns how a process's environment is read. It is the mark by which
// what a task left behind is found, so an agent that may not look would take a
// living process for one that is not there.

// Environ reads the environment that a process was executed with. Root in a
// container engine lacks SYS_PTRACE, and the kernel then shows it nobody's but its
// own; the owner may always look, so the second attempt is made with the owner's
// rights.
func Environ(pid int) ([]byte, error) {
	path := "/proc/" + strconv.Itoa(pid) + "/environ"
	text, err := os.ReadFile(path)
	if !errors.Is(err, fs.ErrPermission) || os.Geteuid() != 0 {
		return text, err
	}
	info, statErr := os.Stat(path)
	if statErr != nil {
		return nil, statErr
	}
	owner := info.Sys().(*syscall.Stat_t)
	return readAs(int(owner.Uid), int(owner.Gid), path)
}

// readAs reads a file as another user. The rights to files belong to a thread, so
// nothing else may run on it meanwhile. One that could not be given back its own
// rights stays locked, and Go ends it with the goroutine.
func readAs(uid, gid int, path string) (text []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		own, ownGroup := os.Geteuid(), os.Getegid()
		// The group first: a user without rights may not change it.
		_ = unix.Setfsgid(gid)
		_ = unix.Setfsuid(uid)
		text, err = os.ReadFile(path)
		_ = unix.Setfsuid(own)
		_ = unix.Setfsgid(ownGroup)
		if uidNow, _ := unix.SetfsuidRetUid(-1); uidNow != own {
			return
		}
		if gidNow, _ := unix.SetfsgidRetGid(-1); gidNow == ownGroup {
			runtime.UnlockOSThread()
		}
	}()
	<-done
	return text, err
}
