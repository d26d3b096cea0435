package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
)

// This file owns exec sessions of the task, on the supervisor's side. An agent connects to a socket of their own,
// shows the key, says what is to be run, and hands over its streams: no byte of them passes here. The connection is the
// process's life line. Who ends it, an agent that is killed for one, has the process hung up on; and the process ends
// with the task, of whose end it is never the reason.

const (
	maxExecs     = 64        // at once, of one task
	maxExecBytes = 128 << 10 // of what is to be run
	// hangUpGrace is how long a process may take to end that was hung up on.
	hangUpGrace = 2 * time.Second
	// settlePatience bounds the wait for the last word about processes that ended with the task.
	settlePatience = time.Second
)

var errNotRunning = errors.New("the task does not run")

// execProcess is the process of an exec session.
type execProcess interface {
	Pid() int
	Done() <-chan struct{}
	Code() int // as a shell tells it, after Done
	Signal(unix.Signal) error
}

// refusal is a process that was not run, with the code that a shell would end with.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

// execWord holds a report about a process for the agent.
type execWord struct {
	Pid    int    `json:"pid,omitempty"` // it runs; a terminal's near end comes with this
	Failed string `json:"failed,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Code   int    `json:"code,omitempty"`
	Over   bool   `json:"over,omitempty"` // with the task
}

// execSessions are the exec sessions that are under way.
type execSessions struct {
	mu    sync.Mutex
	n     int
	over  bool // no more are begun
	under sync.WaitGroup
}

func (e *execSessions) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
		return errNotRunning
	case e.n >= maxExecs:
		return fmt.Errorf("%d further processes of this task run, which is the most", e.n)
	}
	e.n++
	e.under.Add(1)
	return nil
}

func (e *execSessions) done() {
	e.mu.Lock()
	e.n--
	e.mu.Unlock()
	e.under.Done()
}

func (e *execSessions) end() {
	e.mu.Lock()
	e.over = true
	e.mu.Unlock()
}

func (e *execSessions) ended() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.over
}

// settle waits until all have been told how their processes ended, which they have, but not for long.
func (e *execSessions) settle() {
	e.end()
	told := make(chan struct{})
	go func() {
		e.under.Wait()
		close(told)
	}()
	select {
	case <-told:
	case <-time.After(settlePatience):
	}
}

// hearExecs listens for what agents want to be run. Without a socket the task runs all the same.
func (k *keeper) hearExecs() {
	listener, err := listen(execFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervisor: socket for further processes:", err)
		return
	}
	go accept(listener, func(conn *os.File) {
		go func() {
			if k.spec.Key.isShown(conn) {
				k.runExec(conn)
				conn.Close()
			}
		}()
	})
}

// runExec is one exec session, from the agent's word to its end.
func (k *keeper) runExec(conn *os.File) {
	if err := k.execs.begin(); err != nil {
		sayExec(conn, execWord{Failed: err.Error(), Code: codeSetUp}, nil)
		return
	}
	defer k.execs.done()
	what, streams, err := hearExec(conn)
	defer closeAll(streams)
	if err != nil {
		return
	}
	f, err := k.charge.exec(what)
	closeAll(streams) // the process alone has them: their readers see its end
	if err != nil {
		sayExec(conn, wordOf(err), nil)
		return
	}
	said := execWord{Pid: f.Pid()}
	terminal := terminalOf(f)
	sayExec(conn, said, terminal)
	if terminal != nil {
		terminal.Close()
	}
	k.seeOut(conn, f)
}

// seeOut passes signals on until the process has ended, and hangs up on it where the agent goes first.
func (k *keeper) seeOut(conn *os.File, f execProcess) {
	left := make(chan struct{})
	go func() {
		defer close(left)
		buffer := make([]byte, 256)
		for {
			n, err := conn.Read(buffer)
			if err != nil || n == 0 {
				return
			}
			if word, ok := parseCommand(string(buffer[:n])); ok && word.verb == "signal" {
				_ = f.Signal(unix.Signal(word.first))
			}
		}
	}()
	select {
	case <-f.Done():
	case <-left:
		hangUp(f)
		<-f.Done()
		return
	}
	sayExec(conn, execWord{Ended: true, Code: f.Code(), Over: k.endedWithTask(f)}, nil)
}

// endedWithTask reports whether a process was killed because the task is over. What the task's end kills may be seen
// before that end, which a machine under load takes seconds to.
func (k *keeper) endedWithTask(f execProcess) bool {
	if f.Code() != 128+int(unix.SIGKILL) {
		return false
	}
	if k.charge.ending() {
		return true
	}
	select {
	case <-k.allGone:
		return true
	case <-time.After(drainPatience):
		return k.execs.ended()
	}
}

// hangUp ends a process whose agent has gone as a terminal that is unplugged does, and what is left of its session soon
// after. Who left the session meant to stay, and stays as long as the task does.
func hangUp(f execProcess) {
	leader, there := ReadProcess(f.Pid())
	if !there {
		return
	}
	told := map[int]uint64{}
	for fresh := true; fresh; { // Who was born meanwhile is found by the next look, and who has been told bears nobody.
		fresh = false
		for _, p := range sessionOf(leader) {
			if told[p.PID] == p.Start {
				continue
			}
			told[p.PID], fresh = p.Start, true
			_ = p.Send(unix.SIGHUP)
			_ = p.Send(unix.SIGCONT)
		}
	}
	select {
	case <-f.Done():
	case <-time.After(hangUpGrace):
	}
	KillAll(func() []Process { return sessionOf(leader) })
}

// sessionOf are the processes of a session that live. None are where its number has become another's meanwhile, which
// it cannot while one of them lives.
func sessionOf(leader Process) []Process {
	var all []Process
	for _, p := range Processes() {
		switch {
		case p.PID == leader.PID && p.Start != leader.Start:
			return nil
		case p.Session == leader.PID && p.State != 'Z' && p.State != 'X':
			all = append(all, p)
		}
	}
	return all
}

// hearExec reads what is to be run, and the streams that come with it.
func hearExec(conn *os.File) (what carapace.ExecSpec, streams []*os.File, err error) {
	buffer := make([]byte, maxExecBytes)
	_ = conn.SetReadDeadline(time.Now().Add(keyPatience))
	n, streams, err := receiveFiles(conn, buffer)
	_ = conn.SetReadDeadline(time.Time{})
	if err != nil {
		return what, streams, err
	}
	if err := json.Unmarshal(buffer[:n], &what); err != nil {
		return what, streams, err
	}
	if !what.Terminal {
		if len(streams) != 3 {
			return what, streams, fmt.Errorf("%d streams came", len(streams))
		}
		what.Stdin, what.Stdout, what.Stderr = streams[0], streams[1], streams[2]
	}
	return what, streams, nil
}

// sayExec tells the agent, unless it does not listen.
func sayExec(conn *os.File, word execWord, with *os.File) {
	text, err := json.Marshal(word)
	if err == nil {
		err = sendFiles(conn, text, with)
	}
	if err != nil && !errors.Is(err, unix.EPIPE) {
		fmt.Fprintln(os.Stderr, "supervisor: further process:", err)
	}
}

// wordOf returns the report of a process that was not run.
func wordOf(err error) execWord {
	word := execWord{Failed: err.Error(), Code: codeSetUp}
	if r := (*refusal)(nil); errors.As(err, &r) {
		word.Code = r.code
	}
	if failure := (*carapace.StartError)(nil); errors.As(err, &failure) {
		word.Code = failure.Code
	}
	return word
}

// terminalOf is the near end of a process's terminal; nil: it has none.
func terminalOf(f execProcess) *os.File {
	switch f := f.(type) {
	case *carapace.ExecSession:
		return f.Terminal
	case *spawned:
		return f.terminal
	}
	return nil
}
