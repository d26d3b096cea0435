//go:build !linux

package connlimit

import "net"

// This file owns what is known of clients that hung up, on systems other than Linux.

// hungUp cannot be known here, so a handshake is begun in vain for a client that has gone.
func hungUp(net.Conn) bool { return false }
