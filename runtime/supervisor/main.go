package supervisor

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// This file owns the supervisor's life: one command, from its start until
// nothing of it is left and that is on disk. Everything it decides, it decides
// in one loop.

// SubCommand is the hidden argument under which a binary carries the supervisor:
// whoever sees it hands the arguments after it to Main.
const SubCommand = "supervise-task"

// The descriptors that the agent passes.
const (
	agentFD = 3 // its end of a pair: the first connection
	lockFD  = 4 // the task's lock, taken
)

const (
	leftoverPatience = 2 * time.Millisecond // for what ends together with the command
	killAgain        = 20 * time.Millisecond
	killAgainCap     = 250 * time.Millisecond
	fenceTick        = time.Second
	drainPatience    = 200 * time.Millisecond // for output that somebody outside still holds open
	leaderPatience   = 7 * time.Second        // for a container's own program to see its container gone
	recordAgain      = time.Second
)

// keeper is a supervisor at work.
type keeper struct {
	spec    Spec
	child   *child
	logs    [2]*logWriter
	drained chan struct{} // closed when both logs have ended
	control *control

	ended   chan death    // the command itself has ended
	allGone chan struct{} // closed when no descendant is left
	status  chan statusEvent

	started  bool
	death    *death
	oom      bool
	reported *statusEvent // the command's own word on how the task exited
	detail   string       // why we stopped it, where nobody asked
	deadline time.Time    // of a stop's grace
	killing  bool
	killedAt time.Time     // when we began to kill what had not ended by itself; zero: we did not
	roundAt  time.Time     // of the next round of killing …
	pause    time.Duration // … and how long the one after it waits
	heard    int64
}

// Main runs one task's supervisor in the directory given as the only argument.
// It returns the exit code of the process.
func Main(args []string) int {
	runtime.LockOSThread()
	// A small heap is collected early. A limit on all memory, which looks like the better
	// way, lies below what the runtime itself takes, and collects without end.
	debug.SetGCPercent(25)
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "this sub-command is for the agent: it supervises one task")
		return 2
	}
	unix.CloseOnExec(agentFD)
	unix.CloseOnExec(lockFD)
	// Whatever else the agent was given by its own parent must not reach the task.
	_ = unix.CloseRange(lockFD+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err := os.Chdir(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		return 1
	}
	k := &keeper{ended: make(chan death, 1), allGone: make(chan struct{}), drained: make(chan struct{})}
	exit := k.run()
	k.keep(exit)
	return 0
}

// run is the task from its start to its end.
func (k *keeper) run() *Exit {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if exit := k.start(); exit != nil {
		return exit
	}
	for {
		var wake <-chan time.Time
		if d := k.due(); d > 0 {
			wake = time.After(d)
		}
		select {
		case c := <-k.control.commands:
			k.obey(c)
		case s, open := <-k.status:
			if !open {
				k.status = nil
			}
			k.onStatus(s)
		case d := <-k.ended:
			k.death = &d
			k.killing, k.roundAt = true, time.Now().Add(leftoverPatience)
		case <-k.allGone:
			return k.finish()
		case s := <-signals:
			if s != unix.SIGHUP {
				k.stop(k.spec.StopSignal, time.Duration(k.spec.GraceMs)*time.Millisecond)
				k.explain("its supervisor was told to end by " + s.String())
			}
		case <-wake:
			k.onWake()
		}
	}
}

// start reads what is to be done and does it.
func (k *keeper) start() *Exit {
	k.control = openControl()
	found, err := readJSON(specFile, &k.spec)
	if !found || err != nil {
		return setUpFailed(fmt.Errorf("specification: %w", errors.Join(err, errMissing(found))))
	}
	if err := reserveExit("."); err != nil {
		return setUpFailed(err)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return setUpFailed(fmt.Errorf("become the subreaper: %w", err))
	}
	if err := writeJSON(".", stateFile, State{BootID: k.spec.BootID}); err != nil {
		return setUpFailed(err)
	}
	// Counted from before the start: the control plane counts from when it last
	// heard the machine, and knows nothing of when this task began.
	if k.heard = k.spec.HeardNs; k.heard <= 0 || k.heard > BootNs() {
		k.heard = BootNs()
	}
	c, failed := spawn(&k.spec)
	if failed != nil {
		return failed
	}
	k.child = c
	leader, _ := ReadProcess(c.pid)
	if err := writeJSON(".", stateFile, State{BootID: k.spec.BootID, PID: c.pid, Start: leader.Start}); err != nil {
		k.explain(err.Error())
		k.kill()
	}
	k.copyLogs()
	go k.reap()
	if c.status != nil {
		k.status = make(chan statusEvent, 4)
		go readStatus(c.status, k.status)
		return nil
	}
	k.becomeStarted()
	return nil
}

func errMissing(found bool) error {
	if found {
		return nil
	}
	return os.ErrNotExist
}

func (k *keeper) becomeStarted() {
	if !k.started {
		k.started = true
		k.control.say("started " + strconv.Itoa(k.child.pid))
	}
}

// due is how long the loop may sleep; 0: until something happens. It is counted
// towards a point in time, so that no stream of words from outside puts it off.
func (k *keeper) due() time.Duration {
	switch {
	case k.killing:
		return max(time.Until(k.roundAt), time.Millisecond)
	case !k.deadline.IsZero():
		return max(time.Until(k.deadline), time.Millisecond)
	case k.spec.StopWhenLostMs > 0:
		// Timers stand still while the machine sleeps and the fence does not: it is looked at again and again.
		return max(min(k.untilLost(), fenceTick), time.Millisecond)
	}
	return 0
}

func (k *keeper) untilLost() time.Duration {
	return time.Duration(k.spec.StopWhenLostMs)*time.Millisecond - time.Duration(BootNs()-k.heard)
}

func (k *keeper) onWake() {
	now := time.Now()
	switch {
	case k.killing:
		if !now.Before(k.roundAt) {
			k.killRound()
		}
	case !k.deadline.IsZero():
		if !now.Before(k.deadline) {
			k.kill()
		}
	case k.spec.StopWhenLostMs > 0:
		if k.untilLost() <= 0 {
			k.explain(fmt.Sprintf("stopped by stopWhenLost: the control plane has not heard this machine for %d ms", k.spec.StopWhenLostMs))
			k.stop(k.spec.StopSignal, time.Duration(k.spec.GraceMs)*time.Millisecond)
		}
	}
}

func (k *keeper) explain(why string) {
	if k.detail == "" {
		k.detail = why
	}
}

// obey does what an agent says.
func (k *keeper) obey(c command) {
	switch c.verb {
	case "stop":
		k.stop(int(c.first), time.Duration(c.second))
	case "signal":
		k.signal(unix.Signal(c.first))
	case "keep":
		// A time that is still to come is of another clock and says nothing.
		if c.first > k.heard && c.first <= BootNs() {
			k.heard = c.first
		}
	}
}

// stop signals and begins the grace. Said again it can only shorten it.
func (k *keeper) stop(sig int, grace time.Duration) {
	if k.killing {
		return
	}
	if sig <= 0 {
		sig = int(unix.SIGTERM)
	}
	until := time.Now().Add(grace)
	if k.deadline.IsZero() || until.Before(k.deadline) {
		k.deadline = until
	}
	k.signal(unix.Signal(sig))
	k.signal(unix.SIGCONT) // what is stopped cannot end
	if grace <= 0 {
		k.kill()
	}
}

// signal reaches the command, and its whole process group where it does not pass
// signals on. The command is not reaped before its end is known here, or a later
// process could have its number.
func (k *keeper) signal(sig unix.Signal) {
	if k.death != nil || k.child == nil {
		return
	}
	if k.spec.LeaderOnly && sig == unix.SIGKILL {
		k.kill() // which it could not pass on
		return
	}
	leader, ok := ReadProcess(k.child.pid)
	if !ok || leader.Parent != os.Getpid() {
		return
	}
	if k.spec.LeaderOnly {
		_ = leader.Send(sig)
		return
	}
	_ = unix.Kill(-k.child.pid, sig)
}

// kill ends the grace.
func (k *keeper) kill() {
	k.killing = true
	if k.killedAt.IsZero() {
		k.killedAt = time.Now()
	}
	k.killRound()
}

// spared is the process that a round of killing leaves alone. A container's own
// program ends by itself when its container is dead, having told how that went
// and removed what it made; only one that does not is killed as well.
func (k *keeper) spared() int {
	if !k.spec.LeaderOnly || k.child == nil || k.death != nil || time.Since(k.killedAt) > leaderPatience {
		return 0
	}
	return k.child.pid
}

// killRound kills what is left. It is repeated until the reaper says that
// nothing is, because a process in the kernel's hands dies when it is let go.
func (k *keeper) killRound() {
	if k.spec.Cgroup != "" {
		_ = os.WriteFile(filepath.Join(k.spec.Cgroup, "cgroup.kill"), []byte("1"), 0)
	}
	self, spared := os.Getpid(), k.spared()
	KillAll(func() []Process {
		return slices.DeleteFunc(Descendants(self, Processes()), func(p Process) bool { return p.PID == spared })
	})
	k.pause = min(max(2*k.pause, killAgain), killAgainCap)
	k.roundAt = time.Now().Add(k.pause)
}

// finish gathers how it ended, once nothing of it is left.
func (k *keeper) finish() *Exit {
	select { // both may have come at once
	case d := <-k.ended:
		k.death = &d
	default:
	}
	k.closeLogs()
	exit := k.verdict()
	if k.spec.Cgroup != "" {
		k.readCgroup(exit)
	}
	return exit
}

// keep makes the exit durable and tells it. While the disk refuses, the record
// lives here, and the agent hears of it at every connection.
func (k *keeper) keep(exit *Exit) {
	if exit.AtUnixMs == 0 {
		exit.AtUnixMs = time.Now().UnixMilli()
	}
	for {
		err := WriteExit(".", exit)
		if err == nil || errors.Is(err, os.ErrNotExist) { // the agent has it already, and forgot it
			break
		}
		if text, wrong := json.Marshal(exit); wrong == nil {
			k.control.say("gone " + string(text))
		}
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		time.Sleep(recordAgain)
	}
	_ = os.Remove(controlFile)
	text, err := json.Marshal(exit)
	if err == nil {
		k.control.say("gone " + string(text))
	}
}

// BootNs is the clock that a machine's agent and supervisors share. It goes on
// while the machine sleeps, as the leader's does.
func BootNs() int64 {
	var now unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &now); err != nil {
		return 0
	}
	return now.Nano()
}
