package connlimit

import (
	"net"
	"syscall"

	"golang.org/x/sys/unix"
)

// This file owns how it is known that a client hung up while it waited.

// hungUp reports whether the client of a connection has closed it. What the client said before stays unread, so a read
// would not tell.
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
