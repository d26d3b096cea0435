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

// This file reads those files of a process that only its owner and a tracer may read.

// Environ reads the environment with which a process was executed. The environment identifies the remaining processes
// of a task. If the agent could not read it, it would overlook living processes.
func Environ(pid int) ([]byte, error) { return ReadOwned("/proc/" + strconv.Itoa(pid) + "/environ") }

// ReadOwned reads a file of a process. In some container engines, root lacks SYS_PTRACE and can read such a file only
// of its own processes. The owner of a process may always read it, so the second attempt uses the owner's rights.
func ReadOwned(path string) ([]byte, error) {
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

// readAs reads a file as another user. File access rights belong to a thread, so nothing else may run on the thread
// meanwhile. If the thread cannot get its own rights back, it stays locked, and Go ends it with the goroutine.
func readAs(uid, gid int, path string) (text []byte, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		own, ownGroup := os.Geteuid(), os.Getegid()
		// The group comes first, because a user without rights cannot change it.
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
