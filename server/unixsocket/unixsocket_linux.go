package unixsocket

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// This file implements the socket on Linux.
//
// The path of a socket is limited to 107 bytes, and a data folder's path may be longer. The folder is therefore
// opened, and the socket is addressed through the file descriptor.

// answersWithin is the time in which another scheduler must answer on an existing socket.
const answersWithin = time.Second

// Listener is the scheduler's end of the socket.
type Listener struct {
	*net.UnixListener
	folder *os.File
}

// Listen creates the socket in a data folder, and replaces one that an earlier scheduler left.
func Listen(dataDir string) (*Listener, error) {
	path := Path(dataDir)
	folder, err := enter(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	name := within(folder)
	if _, err := os.Lstat(name); err == nil {
		if err := vacate(name); err != nil {
			return nil, errors.Join(fmt.Errorf("%s: %w", path, err), folder.Close())
		}
	}
	on, err := net.ListenUnix("unix", &net.UnixAddr{Name: name, Net: "unix"})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", path, err), folder.Close())
	}
	l := &Listener{on, folder}
	if err := os.Chmod(name, fileMode); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return l, nil
}

func within(folder *os.File) string { return fmt.Sprintf("/proc/self/fd/%d/%s", folder.Fd(), fileName) }

// enter creates the folder, and makes it inaccessible to other users.
func enter(path string) (*os.File, error) {
	if err := os.MkdirAll(path, folderMode); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s must be a folder that only this scheduler uses: %w", path, err)
	}
	folder := os.NewFile(uintptr(fd), path)
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	if err == nil && stat.Uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("%s belongs to uid %d, not to the scheduler's user: remove the folder, and start again",
			path, stat.Uid)
	}
	if err == nil {
		err = folder.Chmod(folderMode)
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// vacate removes a socket without a listener.
func vacate(name string) error {
	if info, err := os.Lstat(name); err != nil || info.Mode().Type() != fs.ModeSocket {
		return errors.Join(errors.New("file is not a socket: remove it"), err)
	}
	conn, err := net.DialTimeout("unix", name, answersWithin)
	if err == nil {
		return errors.Join(errors.New("another scheduler answers on the socket: use separate --data-dir folders"),
			conn.Close())
	}
	return os.Remove(name)
}

// Accept waits for the next caller.
func (l *Listener) Accept() (net.Conn, error) {
	for {
		conn, err := l.AcceptUnix()
		if err != nil {
			return nil, err
		}
		c, err := known(conn)
		if err == nil {
			return c, nil
		}
		_ = conn.Close() // without its user, it gets no answer
	}
}

// Close removes the socket.
func (l *Listener) Close() error { return errors.Join(l.UnixListener.Close(), l.folder.Close()) }

// known asks the kernel for the peer.
func known(conn *net.UnixConn) (*Conn, error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return nil, err
	}
	c := &Conn{Conn: conn}
	var failed error
	err = raw.Control(func(fd uintptr) {
		cred, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		if err != nil {
			failed = err
			return
		}
		c.Who = Caller{UID: cred.Uid}
		pidfd, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD)
		c.Refused = confined(int(cred.Pid), pidfd, err, cred.Uid)
	})
	return c, errors.Join(err, failed)
}

// confined returns why a process does not count as its user. An agent that is not root runs tasks as its own user.
// If this is also the scheduler's user, the uid alone would admit tasks. All tasks have no_new_privs, which a
// process cannot drop and which its children inherit. A process ID may be reused at any time, so a pidfd of the
// peer proves that the inspected process still existed.
func confined(pid, pidfd int, untold error, uid uint32) error {
	if untold != nil {
		if uid == 0 {
			return nil // tasks are not root, unless an operator permits it
		}
		return errUntold
	}
	defer unix.Close(pidfd)
	bound, err := bounded(strconv.Itoa(pid))
	ended, failed := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, 0)
	if err != nil || failed != nil || ended > 0 {
		return errGone
	}
	if own, err := bounded("self"); bound && err == nil && !own {
		return errConfined
	}
	return nil
}

// bounded reports whether a process has no_new_privs.
func bounded(process string) (bool, error) {
	text, err := os.ReadFile(filepath.Join("/proc", process, "status"))
	if err != nil {
		return false, err
	}
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "NoNewPrivs:"); ok {
			return strings.TrimSpace(value) != "0", nil
		}
	}
	return false, fmt.Errorf("/proc/%s/status has no line NoNewPrivs", process)
}

// Dial connects to a socket with a path of any length.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		at := &net.UnixAddr{Name: path, Net: "unix"}
		return nil, &net.OpError{Op: "dial", Net: "unix", Addr: at, Err: os.NewSyscallError("open", err)}
	}
	defer unix.Close(fd)
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)))
	var failed *net.OpError
	if errors.As(err, &failed) { // the path through the descriptor is internal
		failed.Addr = &net.UnixAddr{Name: path, Net: "unix"}
	}
	return conn, err
}

// Mine reports whether a socket exists and this user may enter its folder.
func Mine(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket && unix.Access(path, unix.W_OK) == nil
}
