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

// This file owns the socket as Linux has it.
//
// A socket's name has 107 bytes at most, and the path of a data folder may be longer. So the folder is opened, and the
// socket named by the descriptor.

// answersWithin bounds the time that another scheduler has to answer at a socket that is there.
const answersWithin = time.Second

// Listener is a scheduler's end.
type Listener struct {
	*net.UnixListener
	folder *os.File
}

// Listen makes the socket below a data folder. What an earlier scheduler has left is replaced.
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

// enter makes the folder, and has it closed to everybody else.
func enter(path string) (*os.File, error) {
	if err := os.MkdirAll(path, folderMode); err != nil {
		return nil, err
	}
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("%s: it must be a folder of this scheduler's alone: %w", path, err)
	}
	folder := os.NewFile(uintptr(fd), path)
	var stat unix.Stat_t
	err = unix.Fstat(fd, &stat)
	if err == nil && stat.Uid != uint32(os.Geteuid()) {
		err = fmt.Errorf("%s is of uid %d, and must be of the scheduler's own: remove it, and start again", path, stat.Uid)
	}
	if err == nil {
		err = folder.Chmod(folderMode)
	}
	if err != nil {
		return nil, errors.Join(err, folder.Close())
	}
	return folder, nil
}

// vacate removes a socket at which nobody listens any more.
func vacate(name string) error {
	if info, err := os.Lstat(name); err != nil || info.Mode().Type() != fs.ModeSocket {
		return errors.Join(errors.New("what is there is no socket: remove it"), err)
	}
	conn, err := net.DialTimeout("unix", name, answersWithin)
	if err == nil {
		return errors.Join(errors.New("another scheduler answers there: give each a --data-dir of its own"), conn.Close())
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
		_ = conn.Close() // of whom the kernel says nothing, nothing is said
	}
}

// Close removes the socket.
func (l *Listener) Close() error { return errors.Join(l.UnixListener.Close(), l.folder.Close()) }

// known asks the kernel who connected.
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

// confined is why a caller is not taken for its user. The tasks of an agent that is not root run as its user, so the
// uid alone would let them in where that is the scheduler's too. All of them are under no_new_privs, which no process
// gets rid of and each hands on. A number of a process may be another's a moment later, so a descriptor of the very
// process that connected shows that it lived when it was looked at.
func confined(pid, pidfd int, untold error, uid uint32) error {
	if untold != nil {
		if uid == 0 {
			return nil // no task is the machine's root, unless an operator lets it
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

// bounded reports whether a process is under no_new_privs.
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
	return false, errors.New("it is not said whether it may gain rights")
}

// Dial connects to a socket, however long its path.
func Dial(ctx context.Context, path string) (net.Conn, error) {
	fd, err := unix.Open(filepath.Dir(path), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		at := &net.UnixAddr{Name: path, Net: "unix"}
		return nil, &net.OpError{Op: "dial", Net: "unix", Addr: at, Err: os.NewSyscallError("open", err)}
	}
	defer unix.Close(fd)
	conn, err := (&net.Dialer{}).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d/%s", fd, filepath.Base(path)))
	var failed *net.OpError
	if errors.As(err, &failed) { // whose path is ours alone
		failed.Addr = &net.UnixAddr{Name: path, Net: "unix"}
	}
	return conn, err
}

// Mine reports whether a socket is there and its folder lets us in.
func Mine(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().Type() == fs.ModeSocket && unix.Access(path, unix.W_OK) == nil
}
