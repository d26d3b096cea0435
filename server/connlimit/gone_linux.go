package connlimit

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file detects clients that disconnect while they wait.

// hungUp reports whether the client has closed the connection. A read would not detect this, because unread data
// comes first.
func hungUp(c net.Conn) (gone bool) {
	of, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		of := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(of, 0)
		gone = err == nil && n > 0
	})
	return gone || err != nil
}
