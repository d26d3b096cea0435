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

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns exec sessions of tasks, between their supervisors and a wire to whoever asked for them. A wire
// that is not read holds up the process and nothing else: what is under way is one buffer for each stream.

// Wire carries what an exec session reads and writes. Receive is called by one goroutine, and Send by one at a time.
type Wire interface {
	Receive() (*Incoming, error)
	Send(*Outgoing) error
}

// Incoming holds one message to an exec session. The first names the command.
type Incoming struct {
	Command       []string
	Env           []string
	Terminal      bool
	Helper        bool // the command is one of synapse-exec's
	Stdin         []byte
	StdinEnds     bool
	Signal        int
	Rows, Columns uint16
}

// Outgoing holds one message of an exec session.
type Outgoing struct {
	Begun          bool
	Stdout, Stderr []byte
	StdoutEnds     bool // before the process has
	Ended          bool // the last: as Code and Text say
	Code           int
	Text           string // why it was not run, or that the task has ended; empty: it ended by itself
}

// errNoHelper is a machine whose tasks have not the program that would do it.
var errNoHelper = errors.New("its driver, or its machine, shows synapse-exec to no task, which does this inside; the " +
	"drivers carapace and process do, where the program lies beside synapse-node")

// pieceBytes is how much of a stream goes in one message.
const pieceBytes = 64 << 10

// onExec runs an exec session, beside the line.
func (t *task) onExec(c *messages.ExecTask, to *actor.PID) {
	refuse := func(why string) {
		t.l.send(to, &messages.ExecRefused{Id: c.Id, Session: c.Session, Text: why})
	}
	switch {
	case t.phase != phaseRunning:
		refuse("it does not run")
		return
	case t.l.o.Carry == nil:
		refuse("this machine runs no further processes")
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
			refuse(messages.AsText("its machine cannot reach the scheduler: " + err.Error()))
		}
	})
}

// execSession is an exec session, as it is carried.
type execSession struct {
	wire    Wire
	process *supervisor.ExecSession
	stdin   *os.File // its near end; a terminal's is all three
	sending sync.Mutex
}

// runExec runs what the wire asks for, to its end. It returns when nothing of it is left here.
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

// look says nothing now and then. A process that neither reads nor writes leaves nobody who would notice that the wire
// has broken.
func (e *execSession) look(over <-chan struct{}) {
	tick := time.NewTicker(peerEvery)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-tick.C:
		}
		if e.send(&Outgoing{}) != nil {
			e.process.Close()
			return
		}
	}
}

func failed(err error) *Outgoing {
	out := &Outgoing{Ended: true, Code: 125, Text: err.Error()}
	if f := (*supervisor.ExecFailed)(nil); errors.As(err, &f) {
		out.Code = f.Code
	}
	return out
}

// begin starts the process, and answers what it writes to.
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

// pipes are three, with the ends here and those of the process.
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

// feed hands on what comes, until the wire ends: then the process is hung up on.
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
			_, _ = e.stdin.Write(in.Stdin) // A process that reads no more is none the worse for it.
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

// endStdin tells the process that nothing more comes: a terminal says so by a byte.
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

// drain sends what the process writes, and then how it ended. Once it has, what it left behind may hold its streams for
// as long as the task runs, so they are read for a moment only.
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
					_ = e.send(&Outgoing{StdoutEnds: true}) // a broken wire is told by whoever reads it
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
		out.Code, out.Text = 137, "its task's supervisor has gone"
	case over:
		out.Text = "the task has ended, and with it all that ran in it"
	}
	return e.send(out)
}

// copy sends one stream. A wire that is broken ends the process, and then this. A time that was up while the wire was
// slow says nothing about the stream: only what comes to its end without a byte is over.
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

// peerEvery is how often a wire is looked at that nothing goes over.
const peerEvery = 2 * time.Second

// leftPatience is how long the streams of a process are read that has ended.
const leftPatience = 250 * time.Millisecond
