package launcher

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/shell"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns the remote shell among the tasks of an attempt, on the side of whoever asks for an exec session: a
// socket in the folder of each task, through which nobody but that task asks. To have come by it is the token: the
// agent adds which attempt and rank that is, and the leader decides.

// ExecRequest is a command that a task wants run in another one of its attempt.
type ExecRequest struct {
	Job     string
	Attempt *messages.Token
	Rank    int32  // of the caller
	Host    string // a machine's name or address
	Command []string
}

// RemoteExec is an exec session in another task, as its caller has it. Send is called by one goroutine at a time.
type RemoteExec interface {
	Send(*Incoming) error
	Receive() (*Outgoing, error)
}

const (
	maxRemoteExecs  = 256 // at once, of one task
	requestPatience = 10 * time.Second
	codeLost        = 255 // as ssh has it
)

// hearExecs listens for what the task wants run in others, from its start to its end, and again under each agent.
func (t *task) hearExecs() {
	if t.execs != nil || t.l.o.Reach == nil || !t.helps() {
		return
	}
	listener, err := t.listenInside()
	if err != nil {
		t.l.o.Log.Info("Task %v cannot run commands on other ranks of its gang: %v", t.Key, err)
		return
	}
	t.execs = listener
	t.l.background(func() { t.acceptExecs(listener) })
}

func (t *task) endExecs() {
	if t.execs != nil {
		t.execs.Close()
		t.execs = nil
	}
}

// listenInside makes the socket. The folder is opened first, and the socket made in what was opened: its path may be
// too long for a socket's, and a link may lie on it by now.
func (t *task) listenInside() (*net.UnixListener, error) {
	scratch, err := unix.Open(t.Scratch, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(scratch)
	dir, err := unix.Openat(scratch, helperDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(dir)
	if err := unix.Unlinkat(dir, shell.SocketName, 0); err != nil && !errors.Is(err, unix.ENOENT) {
		return nil, err
	}
	path := filepath.Join("/proc/self/fd", fmt.Sprint(dir), shell.SocketName)
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	listener.SetUnlinkOnClose(false) // by then the number is another folder's
	if err := unix.Fchmodat(dir, shell.SocketName, 0o666, 0); err != nil {
		listener.Close()
		return nil, err
	}
	return listener, nil
}

func (t *task) acceptExecs(listener *net.UnixListener) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel() // its sessions end with the task
	go func() {
		select {
		case <-t.l.done:
			listener.Close()
		case <-ctx.Done():
		}
	}()
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	room := make(chan struct{}, maxRemoteExecs)
	for {
		conn, err := listener.AcceptUnix()
		if err != nil {
			return
		}
		select {
		case room <- struct{}{}:
			all.Go(func() {
				t.carryExec(ctx, conn)
				<-room
			})
		default:
			conn.Close()
		}
	}
}

// carryExec is one session, from its first word to its end.
func (t *task) carryExec(ctx context.Context, conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetReadDeadline(time.Now().Add(requestPatience))
	kind, body, err := shell.Receive(conn)
	var asked shell.Command
	if err != nil || kind != shell.Exec || json.Unmarshal(body, &asked) != nil {
		return
	}
	_ = conn.SetReadDeadline(time.Time{})
	request := ExecRequest{
		Job: t.Job, Attempt: messages.ToToken(t.Key.Token), Rank: int32(t.Key.Rank), Host: asked.Host,
		Command: asked.Args,
	}
	end, err := t.relay(ctx, cancel, request, conn)
	if err != nil {
		end = shell.Result{Code: codeLost, Text: err.Error()}
	}
	if text, err := json.Marshal(end); err == nil {
		_ = shell.Send(conn, shell.End, text)
	}
}

// relay carries the streams of a session that may be had, and answers how it ended.
func (t *task) relay(ctx context.Context, cancel func(), r ExecRequest, c *net.UnixConn) (end shell.Result, err error) {
	if !t.isOurs(c) {
		return end, errOthers
	}
	end = shell.Result{Code: codeLost, Text: "its machine cannot reach the scheduler"}
	err = t.l.o.Reach(ctx, r, func(remote RemoteExec) error {
		go func() {
			defer cancel() // whoever called has gone
			passOn(c, remote)
		}()
		var err error
		end, err = bringBack(c, remote)
		return err
	})
	return end, err
}

var errOthers = errors.New("the socket is another task's")

// isOurs reports whether a process of the task calls. Plain processes of one user see the sockets of all their tasks,
// those of other attempts among them, and the kernel does not hold that against them. All processes of a task have its
// supervisor above them, also those that an exec session began, and those whose parents have ended.
func (t *task) isOurs(conn *net.UnixConn) bool {
	state, err := supervisor.ReadState(t.home)
	if err != nil || state == nil {
		return false
	}
	leader, there := supervisor.ReadProcess(state.PID)
	raw, err := conn.SyscallConn()
	if err != nil || !there || leader.Start != state.Start {
		return false
	}
	var caller *unix.Ucred
	_ = raw.Control(func(fd uintptr) { caller, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED) })
	if err != nil || caller == nil {
		return false
	}
	for pid := int(caller.Pid); pid > 1; {
		if pid == leader.Parent {
			return true
		}
		p, there := supervisor.ReadProcess(pid)
		if !there {
			return false
		}
		pid = p.Parent
	}
	return false
}

// passOn hands on what the caller says, until it has gone. A process that has ended takes nothing more, and how it
// ended is told elsewhere.
func passOn(conn io.Reader, remote RemoteExec) {
	for {
		kind, body, err := shell.Receive(conn)
		if err != nil {
			return
		}
		in := &Incoming{}
		switch {
		case kind == shell.Stdin:
			in.Stdin = body
		case kind == shell.StdinEnds:
			in.StdinEnds = true
		case kind == shell.Signal && len(body) == 1:
			in.Signal = int(body[0])
		}
		_ = remote.Send(in)
	}
}

// bringBack hands back what the process writes, until it has ended.
func bringBack(conn io.Writer, remote RemoteExec) (shell.Result, error) {
	for {
		out, err := remote.Receive()
		if err != nil {
			return shell.Result{}, err
		}
		for _, stream := range []struct {
			kind shell.Kind
			text []byte
		}{{shell.Stdout, out.Stdout}, {shell.Stderr, out.Stderr}} {
			for text := stream.text; len(text) > 0; {
				n := min(len(text), shell.PieceBytes)
				if err := shell.Send(conn, stream.kind, text[:n]); err != nil {
					return shell.Result{}, err
				}
				text = text[n:]
			}
		}
		if out.Ended {
			return shell.Result{Code: out.Code, Text: out.Text}, nil
		}
	}
}
