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

// This file is the supervisor's side of exec sessions. An agent connects to a separate socket and sends the key, the
// command and the streams. The bytes of the streams do not pass through the supervisor. The process depends on the
// connection: if the connection ends, for example because the agent was killed, the process is hung up. The process
// ends with the task, and its end does not affect the task.

const (
	maxExecs     = 64        // of one task at the same time
	maxExecBytes = 128 << 10 // of the description of a command
	// hangUpGrace is the time between hanging up a process and killing it.
	hangUpGrace = 2 * time.Second
	// settlePatience bounds the wait for the final reports of sessions that ended with the task.
	settlePatience = time.Second
)

var errNotRunning = errors.New("the task is not running")

// execProcess is the process of an exec session.
type execProcess interface {
	Pid() int
	Done() <-chan struct{}
	Code() int // in the form of a shell; valid after Done
	Signal(unix.Signal) error
}

// refusal reports a process that was not run, with the exit code that a shell would return.
type refusal struct {
	code int
	text string
}

func (r *refusal) Error() string { return r.text }

// execWord is a report about a process for the agent.
type execWord struct {
	Pid    int    `json:"pid,omitempty"` // the process runs; this end of its terminal is sent along
	Failed string `json:"failed,omitempty"`
	Ended  bool   `json:"ended,omitempty"`
	Code   int    `json:"code,omitempty"`
	Over   bool   `json:"over,omitempty"` // the process ended with the task
}

// execSessions counts the exec sessions in progress.
type execSessions struct {
	mu    sync.Mutex
	n     int
	over  bool // no more sessions may begin
	under sync.WaitGroup
}

func (e *execSessions) begin() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.over:
		return errNotRunning
	case e.n >= maxExecs:
		return fmt.Errorf("the task already has %d exec sessions, the limit; end one first", e.n)
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

// settle waits for a bounded time until all agents have the final reports of their sessions.
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

// hearExecs accepts requests for exec sessions. Without a socket the task still runs.
func (k *keeper) hearExecs() {
	listener, err := listen(execFile)
	if err != nil {
		fmt.Fprintln(os.Stderr, "supervisor: socket for exec sessions:", err)
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

// runExec runs one exec session from the request to its end.
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
	closeAll(streams) // only the process has them, so their readers see its end
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

// seeOut passes signals until the process has ended. If the agent closes the connection first, it hangs up the process.
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

// endedWithTask reports whether a process was killed because the task ended. The kill may be visible before the task's
// end. On a busy host, the difference may be seconds.
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

// hangUp ends a process whose agent has gone, as if its terminal were unplugged. It kills the rest of the session soon
// after. A process that left the session stays for as long as the task.
func hangUp(f execProcess) {
	leader, there := ReadProcess(f.Pid())
	if !there {
		return
	}
	told := map[int]uint64{}
	for fresh := true; fresh; { // Each round finds processes that were forked during the last one.
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

// sessionOf returns the living processes of a session. It returns none if the session's number was reused, which is
// impossible while a process of the session lives.
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

// hearExec reads the command and the streams of a session.
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
			return what, streams, fmt.Errorf("received %d streams instead of 3", len(streams))
		}
		what.Stdin, what.Stdout, what.Stderr = streams[0], streams[1], streams[2]
	}
	return what, streams, nil
}

// sayExec sends a report to the agent. It ignores an agent that has gone.
func sayExec(conn *os.File, word execWord, with *os.File) {
	text, err := json.Marshal(word)
	if err == nil {
		err = sendFiles(conn, text, with)
	}
	if err != nil && !errors.Is(err, unix.EPIPE) {
		fmt.Fprintln(os.Stderr, "supervisor: exec session:", err)
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

// terminalOf returns the near end of a process's terminal; nil: there is none.
func terminalOf(f execProcess) *os.File {
	switch f := f.(type) {
	case *carapace.ExecSession:
		return f.Terminal
	case *spawned:
		return f.terminal
	}
	return nil
}
