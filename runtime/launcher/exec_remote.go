package launcher

import (
	"bytes"
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

// This file carries requests of a task to run commands in other tasks of its attempt. Each task has a socket in its
// folder, which only that task can use. A request through the socket proves the task's identity. The agent adds the
// attempt and the rank, and the leader decides.

// ExecRequest holds a command that a task wants to run in another task of its attempt.
type ExecRequest struct {
	Job     string
	Attempt *messages.Token
	Rank    int32  // of the calling task
	Host    string // name or address of a node
	Command []string
}

// RemoteExec connects the calling task with an exec session in another task. One goroutine at a time calls Send.
type RemoteExec interface {
	Send(*Incoming) error
	Receive() (*Outgoing, error)
}

const (
	maxRemoteExecs  = 256 // of one task at the same time
	requestPatience = 10 * time.Second
	codeLost        = 255 // as in ssh
)

// hearExecs accepts requests of the task from its start to its end. Each new agent calls it again.
func (t *task) hearExecs() {
	if t.execs != nil || t.l.o.Reach == nil || !t.helps() {
		return
	}
	listener, err := t.listenInside()
	if err != nil {
		t.l.o.Log.Info("Task %v cannot run commands in other tasks of its gang: %v", t.Key, err)
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

// listenInside makes the socket. It opens the folder first and makes the socket relative to the open folder. The path
// may be too long for a socket, and may by now contain a link.
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
	listener.SetUnlinkOnClose(false) // by then the number may belong to another folder
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

// carryExec serves one session from its request to its end.
func (t *task) carryExec(ctx context.Context, conn *net.UnixConn) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.SetReadDeadline(time.Now().Add(requestPatience))
	var first [1]byte
	if _, err := io.ReadFull(conn, first[:]); err == nil && first[0] == shell.Ack[0] {
		t.hearSaved(conn)
		return
	}
	kind, body, err := shell.Receive(io.MultiReader(bytes.NewReader(first[:]), conn))
	if err == nil && kind == shell.Own {
		answer(conn, t.ownJob(ctx, conn, string(body)))
		return
	}
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
	answer(conn, end)
}

// answer sends the last frame of a session.
func answer(conn io.Writer, end shell.Result) {
	if text, err := json.Marshal(end); err == nil {
		_ = shell.Send(conn, shell.End, text)
	}
}

// relay carries the streams of a permitted session and returns its result.
func (t *task) relay(ctx context.Context, cancel func(), r ExecRequest, c *net.UnixConn) (end shell.Result, err error) {
	if !t.isOurs(c) {
		return end, errOthers
	}
	end = shell.Result{Code: codeLost, Text: "the node cannot reach the scheduler"}
	err = t.l.o.Reach(ctx, r, func(remote RemoteExec) error {
		go func() {
			defer cancel() // the caller has gone
			passOn(c, remote)
		}()
		var err error
		end, err = bringBack(c, remote)
		return err
	})
	return end, err
}

var errOthers = errors.New("the socket belongs to another task")

// isOurs reports whether the caller is a process of the task. Plain processes of one user can see the sockets of all
// their tasks, also of other attempts, and the kernel permits that. All processes of a task descend from its
// supervisor, including exec sessions and orphans.
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

// passOn forwards the caller's input until the caller has gone. A failed send needs no report, because the session's
// result follows separately.
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

// bringBack returns the output of the process to the caller until the process has ended.
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
