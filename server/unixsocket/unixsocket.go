// Package unixsocket lets local clients connect to a scheduler through a unix socket. The socket is never abstract,
// and is in a folder that only the scheduler's user may enter. The package returns the peer's user as the kernel
// reports it, and decides nothing.
package unixsocket

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
)

// This file defines the names, and what is known of a peer.

const (
	// DataDir is the default data folder of a scheduler.
	DataDir = "/var/lib/synapse"
	// Scheme is the prefix of a socket's address, which distinguishes it from host:port.
	Scheme = "unix:"

	folderName = "local"
	fileName   = "socket"
	folderMode = 0o700
	fileMode   = 0o600
)

// Path returns the path of a scheduler's socket in its data folder.
func Path(dataDir string) string { return filepath.Join(dataDir, folderName, fileName) }

// Caller is the user of a connected process.
type Caller struct{ UID uint32 }

// String returns the caller for the log and the audit log.
func (c Caller) String() string {
	return "uid " + strconv.FormatUint(uint64(c.UID), 10) + " by the local socket"
}

// The reasons to refuse a process of an admitted user.
var (
	errConfined = errors.New("no_new_privs is set, as for tasks, so the process does not count as its user: " +
		"use a certificate or a token")
	errUntold = errors.New("kernel cannot distinguish a task from its user before Linux 6.5: " +
		"use root, a certificate or a token")
	errGone = errors.New("process has ended")
)

// Conn is a connection through the socket.
type Conn struct {
	net.Conn
	Who Caller
	// Refused is the reason why the process does not count as its user, or nil.
	Refused error
}

// address is the remote address of a connection.
type address struct{ Caller }

// Network returns the name of the network.
func (address) Network() string { return "unix" }

// RemoteAddr returns the caller, because a socket's address says nothing.
func (c *Conn) RemoteAddr() net.Addr { return address{c.Who} }
