//go:build linux

package hostpath

import (
	"errors"
	"fmt"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// This file lets a thread act as another user for one access.

// Guest is the task's user in the form of the kernel.
type Guest struct {
	UID    uint32   `json:"uid"`
	GID    uint32   `json:"gid"`
	Groups []uint32 `json:"groups,omitempty"`
	// Self reports the agent's own user. An agent that is not root can act as no other user.
	Self bool `json:"self,omitempty"`
}

func (g Guest) String() string {
	if g.Self {
		return "the agent's own user"
	}
	return fmt.Sprintf("%d:%d", g.UID, g.GID)
}

// Do calls do with only the guest's file rights: its user, its groups, and none of root's capabilities for files, which
// the kernel drops with the user. This applies only to the calling thread, and only until do returns.
func (g Guest) Do(do func() error) (err error) {
	if g.Self {
		return do()
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	groups, err := unix.Getgroups()
	if err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	own := make([]uint32, len(groups))
	for i, group := range groups {
		own[i] = uint32(group)
	}
	if err := setGroups(g.Groups); err != nil {
		return fmt.Errorf("groups of user %d: %w", g.UID, err)
	}
	uid, gid := unix.Geteuid(), unix.Getegid()
	become(int(g.UID), int(g.GID))
	defer func() {
		become(uid, gid)
		if setGroups(own) != nil {
			panic("a thread cannot restore its groups and would keep those of a user")
		}
	}()
	user, _ := unix.SetfsuidRetUid(-1)
	group, _ := unix.SetfsgidRetGid(-1)
	if user != int(g.UID) || group != int(g.GID) {
		return errors.New("this thread cannot act as another user")
	}
	return do()
}

// become sets the group and the user for file access. Neither call reports a failure.
func become(uid, gid int) {
	_, _ = unix.SetfsgidRetGid(gid)
	_, _ = unix.SetfsuidRetUid(uid)
}

// setGroups sets the groups of the calling thread. The standard library's function sets those of all threads.
func setGroups(groups []uint32) error {
	var first *uint32
	if len(groups) > 0 {
		first = &groups[0]
	}
	_, _, errno := unix.RawSyscall(unix.SYS_SETGROUPS, uintptr(len(groups)), uintptr(unsafe.Pointer(first)), 0)
	if errno != 0 {
		return errno
	}
	return nil
}
