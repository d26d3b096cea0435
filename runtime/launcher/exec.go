package launcher

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file runs exec sessions: it connects a task's supervisor with a wire to the client. If the client does not read
// the wire, only the process of the session stalls. At most one buffer per stream is then in memory.

// Wire carries the messages of an exec session. One goroutine calls Receive. At most one goroutine calls Send at a
// time.
type Wire interface {
	Receive() (*Incoming, error)
	Send(*Outgoing) error
}

// Incoming holds one message to an exec session. The first message names the command.
type Incoming struct {
	Command       []string
	Env           []string
	Terminal      bool
	Helper        bool // the command is one of synapse-exec
	Stdin         []byte
	StdinEnds     bool
	Signal        int
	Rows, Columns uint16
}

// Outgoing holds one message of an exec session.
type Outgoing struct {
	Begun          bool
	Stdout, Stderr []byte
	StdoutEnds     bool // sent before the process has ended
	Ended          bool // the last message; Code and Text describe the end
	Code           int
	Text           string // why the command did not run, or that the task has ended; empty: the command ended by itself
}

// errNoHelper reports that the tasks of this node do not have the program for this request.
var errNoHelper = errors.New("synapse-exec is not available in this task; it needs the " +
	"driver carapace or process, and the program next to synapse-node on the node")

// pieceBytes bounds the part of a stream in one message.
const pieceBytes = 64 << 10

// onExec starts an exec session in the background.
func (t *task) onExec(c *messages.ExecTask, to *actor.PID) {
	refuse := func(why string) {
		t.l.send(to, &messages.ExecRefused{Id: c.Id, Session: c.Session, Text: why})
	}
	switch {
	case t.phase != phaseRunning:
		refuse("the task is not running")
		return
	case t.l.o.Carry == nil:
		refuse("this node runs no exec sessions")
		return
	}
	home, helper := t.home, ""
	if t.helps() {
		helper = Helper(t.driver.Scratch(&t.Task))
	}
	t.l.background(func() {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		go func() {
			select {
			case <-t.l.done:
				cancel()
			case <-ctx.Done():
			}
		}()
		err := t.l.o.Carry(ctx, c.Session, func(wire Wire) error { return runExec(home, helper, wire) })
		if err != nil && ctx.Err() == nil {
			refuse(messages.AsText("the task's node cannot reach the scheduler: " + err.Error()))
		}
	})
}

// execSession carries the streams of one exec session.
type execSession struct {
	wire    Wire
	process *supervisor.ExecSession
	stdin   *os.File // the agent's end; of a terminal, all three streams
	sending sync.Mutex
}

// runExec runs the command that the wire requests, until it ends. When it returns, nothing of the session is left here.
func runExec(home, helper string, wire Wire) error {
	asked, err := wire.Receive()
	if err != nil {
		return err
	}
	if asked.Helper {
		if helper == "" {
			return wire.Send(failed(errNoHelper))
		}
		asked.Command = append([]string{helper}, asked.Command...)
	}
	e := &execSession{wire: wire}
	outputs, err := e.begin(home, asked)
	if err != nil {
		return wire.Send(failed(err))
	}
	defer e.process.Close()
	over := make(chan struct{})
	defer close(over)
	go e.feed(asked)
	go e.look(over)
	return e.drain(outputs)
}

// look sends an empty message at intervals. It detects a broken wire even if the process neither reads nor writes.
func (e *execSession) look(over <-chan struct{}) {
	clock.Every(peerEvery, over, func() {
		if e.send(&Outgoing{}) != nil {
			e.process.Close()
		}
	})
}

func failed(err error) *Outgoing {
	out := &Outgoing{Ended: true, Code: 125, Text: err.Error()}
	if f := (*supervisor.ExecFailed)(nil); errors.As(err, &f) {
		out.Code = f.Code
	}
	return out
}

// begin starts the process and returns its output streams.
func (e *execSession) begin(home string, asked *Incoming) (outputs [2]*os.File, err error) {
	what := carapace.ExecSpec{Command: asked.Command, Env: asked.Env, Terminal: asked.Terminal}
	var theirs [3]*os.File
	if !asked.Terminal {
		var ours [3]*os.File
		if ours, theirs, err = pipes(); err != nil {
			return outputs, err
		}
		e.stdin, outputs = ours[0], [2]*os.File{ours[1], ours[2]}
	}
	what.Stdin, what.Stdout, what.Stderr = theirs[0], theirs[1], theirs[2]
	e.process, err = supervisor.Exec(home, what)
	closeAll(theirs[:])
	if err != nil {
		closeAll(append(outputs[:], e.stdin))
		return outputs, err
	}
	if asked.Terminal {
		e.stdin, outputs[0] = e.process.Terminal, e.process.Terminal
		e.resize(asked)
	}
	return outputs, nil
}

// pipes makes three pipes. It returns the agent's ends and the process's ends.
func pipes() (ours, theirs [3]*os.File, err error) {
	for i := range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			closeAll(ours[:])
			closeAll(theirs[:])
			return ours, theirs, fmt.Errorf("pipe: %w", err)
		}
		if ours[i], theirs[i] = r, w; i == 0 {
			ours[i], theirs[i] = w, r
		}
	}
	return ours, theirs, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// feed passes input to the process until the wire ends. Then feed hangs up the process.
func (e *execSession) feed(first *Incoming) {
	defer e.process.Close()
	defer func() {
		if !first.Terminal {
			e.stdin.Close()
		}
	}()
	for {
		in, err := e.wire.Receive()
		if err != nil {
			return
		}
		if len(in.Stdin) > 0 {
			_, _ = e.stdin.Write(in.Stdin) // The process may have stopped reading, which is not an error.
		}
		if in.StdinEnds {
			e.endStdin(first.Terminal)
		}
		if in.Signal > 0 {
			_ = e.process.Signal(in.Signal)
		}
		if in.Rows > 0 && first.Terminal {
			e.resize(in)
		}
	}
}

// endStdin signals the end of the input to the process. A terminal gets a control byte.
func (e *execSession) endStdin(terminal bool) {
	const endOfTransmission = 4
	if terminal {
		_, _ = e.stdin.Write([]byte{endOfTransmission})
		return
	}
	e.stdin.Close()
}

func (e *execSession) resize(to *Incoming) {
	if to.Rows == 0 || to.Columns == 0 {
		return
	}
	if raw, err := e.stdin.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: to.Rows, Col: to.Columns})
		})
	}
}

// drain sends the output of the process, and then its end. Descendants of the process may hold the streams for as long
// as the task runs. Therefore drain reads only for a moment after the process has ended.
func (e *execSession) drain(outputs [2]*os.File) error {
	if err := e.send(&Outgoing{Begun: true}); err != nil {
		closeAll(append(outputs[:], e.stdin))
		return err
	}
	var copies sync.WaitGroup
	for i, from := range outputs {
		if from != nil {
			copies.Go(func() {
				e.copy(from, i == 1)
				if i == 0 && outputs[1] != nil {
					_ = e.send(&Outgoing{StdoutEnds: true}) // the reader of the wire reports that it broke
				}
			})
		}
	}
	code, over, err := e.process.Wait()
	for _, from := range outputs {
		if from != nil {
			_ = from.SetReadDeadline(time.Now().Add(leftPatience))
		}
	}
	copies.Wait()
	closeAll(append(outputs[:], e.stdin))
	out := &Outgoing{Ended: true, Code: code}
	switch {
	case err != nil:
		out.Code, out.Text = 137, "the task's supervisor was killed"
	case over:
		out.Text = "the task has ended, and its exec sessions with it"
	}
	return e.send(out)
}

// copy sends one stream. If the wire breaks, the process ends and then the copy. A read deadline may pass while the
// wire is slow. Therefore copy stops only after an idle read that got no byte.
func (e *execSession) copy(from *os.File, stderr bool) {
	buffer := make([]byte, pieceBytes)
	for idle := false; ; {
		n, err := from.Read(buffer)
		if n > 0 {
			out := &Outgoing{Stdout: buffer[:n]}
			if stderr {
				out.Stdout, out.Stderr = nil, buffer[:n]
			}
			if e.send(out) != nil {
				e.process.Close()
				return
			}
			idle = false
		}
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded) && !idle:
			idle = true
			_ = from.SetReadDeadline(time.Now().Add(leftPatience))
		case err != nil:
			return
		}
	}
}

func (e *execSession) send(out *Outgoing) error {
	e.sending.Lock()
	defer e.sending.Unlock()
	return e.wire.Send(out)
}

// peerEvery is the interval of checks of an idle wire.
const peerEvery = 2 * time.Second

// leftPatience bounds the reading of streams after the process has ended.
const leftPatience = 250 * time.Millisecond
