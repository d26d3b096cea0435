// Package unixsocket lets clients in to a scheduler on its own machine: by a unix socket, never an abstract one, in a
// folder that only the scheduler's user may enter. It answers who is at the other end by what the kernel says, and
// decides nothing.
package unixsocket

import (
	"errors"
	"net"
	"path/filepath"
	"strconv"
)

// This file owns the names, and what is known of whoever comes.

const (
	// DataDir is where a scheduler keeps what must not be lost, unless it is told otherwise.
	DataDir = "/var/lib/synapse"
	// Scheme begins the address of a socket, where that of a port could stand too.
	Scheme = "unix:"

	folderName = "local"
	fileName   = "socket"
	folderMode = 0o700
	fileMode   = 0o600
)

// Path returns where a scheduler's socket is, by its data folder.
func Path(dataDir string) string { return filepath.Join(dataDir, folderName, fileName) }

// Caller says who has connected.
type Caller struct{ UID uint32 }

// String is the caller as the log and the audit have it.
func (c Caller) String() string {
	return "uid " + strconv.FormatUint(uint64(c.UID), 10) + " by the local socket"
}

// What a caller is refused for, whose user would be let in.
var (
	errConfined = errors.New("it may gain no rights (no_new_privs), as a task may not, so it is not taken for its user: " +
		"show a certificate or a token")
	errUntold = errors.New("this machine's kernel does not tell a task of that user from the user (Linux 6.5 does): " +
		"be root, or show a certificate or a token")
	errGone = errors.New("whoever connected is gone")
)

// Conn is a connection by the socket.
type Conn struct {
	net.Conn
	Who Caller
	// Refused is why the caller is not taken for its user, though the kernel says that it is; nil: it is.
	Refused error
}

// address says where a connection comes from.
type address struct{ Caller }

// Network names it.
func (address) Network() string { return "unix" }

// RemoteAddr says who it is: where does not tell anything.
func (c *Conn) RemoteAddr() net.Addr { return address{c.Who} }
