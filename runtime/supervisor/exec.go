package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
)

// This file is the agent's side of an exec session. It also sends descriptors over a socket.

// ExecSession is an agent's connection to an exec session.
type ExecSession struct {
	conn   *os.File
	leader Process     // the session's first process
	closed atomic.Bool // by this side
	// Terminal is the caller's end of the terminal, which the caller must close; nil: there is none.
	Terminal *os.File
}

// ExecFailed reports a process that was not run, with the exit code that a shell would return.
type ExecFailed struct {
	Code int
	Text string
}

func (e *ExecFailed) Error() string { return e.Text }

// errEarlier reports a supervisor that does not support exec sessions.
var errEarlier = errors.New("the task's supervisor is of an earlier version without exec sessions; " +
	"start the task again")

// Exec asks the supervisor in dir to run an exec session of its task. The streams are passed to the supervisor, and the
// caller must still close its own copies.
func Exec(dir string, what carapace.ExecSpec) (*ExecSession, error) {
	conn, err := connect(dir, execFile)
	for until := time.Now().Add(keyPatience); errors.Is(err, unix.EAGAIN) && time.Now().Before(until); {
		time.Sleep(time.Millisecond) // the queue of the socket is full
		conn, err = connect(dir, execFile)
	}
	if errors.Is(err, fs.ErrNotExist) {
		if alive, _ := Lives(dir); alive {
			return nil, errEarlier
		}
		return nil, errNotRunning
	}
	if err != nil {
		return nil, fmt.Errorf("the task's supervisor does not answer: %w", err)
	}
	e := &ExecSession{conn: conn}
	if err := e.begin(dir, what); err != nil {
		conn.Close()
		return nil, err
	}
	return e, nil
}

func (e *ExecSession) begin(dir string, what carapace.ExecSpec) error {
	if err := (&Link{dir: dir, conn: e.conn}).showKey(); err != nil {
		return err
	}
	text, err := json.Marshal(what)
	if err != nil {
		return err
	}
	if len(text) > maxExecBytes {
		return &ExecFailed{codeNotExecutable, "command and environment are too long; shorten them"}
	}
	var streams []*os.File
	if !what.Terminal {
		streams = []*os.File{what.Stdin, what.Stdout, what.Stderr}
	}
	if err := sendFiles(e.conn, text, streams...); err != nil {
		return fmt.Errorf("the task's supervisor does not answer: %w", err)
	}
	word, files, err := e.next()
	switch {
	case err != nil:
		return errNotRunning // the supervisor has gone, and so has the task
	case word.Failed != "":
		return &ExecFailed{word.Code, word.Failed}
	}
	e.leader, _ = ReadProcess(word.Pid)
	if len(files) > 0 {
		fd := int(files[0].Fd())
		copied, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
		closeAll(files)
		if err != nil {
			return err
		}
		e.Terminal, err = adoptSocket(copied)
		return err
	}
	return nil
}

func (e *ExecSession) next() (word execWord, files []*os.File, err error) {
	buffer := make([]byte, maxPacket)
	n, files, err := receiveFiles(e.conn, buffer)
	if err == nil {
		err = json.Unmarshal(buffer[:n], &word)
	}
	return word, files, err
}

// Wait waits for the end of the session. over reports that the session ended because the task did. An error means that
// the supervisor has gone, or that Close was called.
func (e *ExecSession) Wait() (code int, over bool, err error) {
	word, _, err := e.next()
	if err != nil {
		if !e.closed.Load() {
			e.sweep()
		}
		return 0, false, err
	}
	return word.Code, word.Over, nil
}

// sweep kills the processes of the session that a dead supervisor left. A container ends with its supervisor. Of plain
// processes, the kernel kills only the first. The driver finds others by the session of the task's command and by their
// environment, which they may have cleared.
func (e *ExecSession) sweep() {
	if e.leader.PID != 0 {
		KillAll(func() []Process { return sessionOf(e.leader) })
	}
}

// Signal passes a signal to the session.
func (e *ExecSession) Signal(n int) error { return sendNow(e.conn, fmt.Sprintf("signal %d", n)) }

// Close hangs up the process if it still runs.
func (e *ExecSession) Close() {
	e.closed.Store(true)
	e.conn.Close()
}

// sendFiles sends one packet with descriptors. It waits while the queue is full.
func sendFiles(conn *os.File, text []byte, files ...*os.File) error {
	var numbers []int
	for _, f := range files {
		if f != nil {
			numbers = append(numbers, int(f.Fd()))
		}
	}
	var rights []byte
	if len(numbers) > 0 {
		rights = unix.UnixRights(numbers...)
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var sent error
	err = raw.Write(func(fd uintptr) bool {
		sent = unix.Sendmsg(int(fd), text, rights, nil, unix.MSG_NOSIGNAL)
		return sent != unix.EAGAIN
	})
	return errors.Join(err, sent)
}

// receiveFiles waits for one packet and its descriptors.
func receiveFiles(conn *os.File, into []byte) (n int, files []*os.File, err error) {
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, nil, err
	}
	control := make([]byte, unix.CmsgSpace(4*4))
	var controlN int
	var got error
	read := func(fd uintptr) bool {
		n, controlN, _, _, got = unix.Recvmsg(int(fd), into, control, unix.MSG_CMSG_CLOEXEC)
		return got != unix.EAGAIN
	}
	if err = raw.Read(read); got == unix.ECONNRESET { // as in Link.Next
		err = raw.Read(read)
	}
	if err = errors.Join(err, got); err != nil {
		return 0, nil, err
	}
	all, err := unix.ParseSocketControlMessage(control[:controlN])
	for i := range all {
		numbers, _ := unix.ParseUnixRights(&all[i])
		for _, number := range numbers {
			files = append(files, os.NewFile(uintptr(number), "handed"))
		}
	}
	if err == nil && n == 0 {
		err = io.EOF
	}
	return n, files, err
}
