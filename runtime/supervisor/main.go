package supervisor

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime/debug"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/runtime/carapace"
)

// This file runs the supervisor: one command, from its start until nothing of it is left and the exit record is on
// disk. One loop makes all decisions.

// SubCommand is the hidden argument that makes a binary a supervisor. Its main passes the arguments after it to Main.
const SubCommand = "supervise-task"

// The descriptors that the agent passes.
const (
	agentFD = 3 // one end of a socket pair: the first connection
	lockFD  = 4 // the task's lock, already taken
	// FirstHeld is the first of the further descriptors.
	FirstHeld = 5
)

const (
	leftoverPatience = 2 * time.Millisecond // for processes that end together with the command
	killAgain        = 20 * time.Millisecond
	maxKillAgain     = 250 * time.Millisecond
	fenceTick        = time.Second
	drainPatience    = 200 * time.Millisecond // for output that an outside process still holds open
	recordAgain      = time.Second
)

// charge is the task of one supervisor. The loop calls its methods.
type charge interface {
	// start begins the task; later events arrive through the keeper's channels. It returns an exit if the task
	// never ran and nothing of it exists.
	start() *Exit
	signal(unix.Signal)
	// killRound kills the current processes. It is called repeatedly until none is left.
	killRound()
	// ending reports whether the first process is exiting and the kernel is killing the other processes of the
	// task.
	ending() bool
	// verdict returns the exit of the task after allGone is closed.
	verdict() *Exit
	// exec runs an exec session, which ends with the task. It is called outside of the loop and may take long.
	exec(carapace.ExecSpec) (execProcess, error)
}

// keeper runs one supervisor.
type keeper struct {
	spec    Spec
	charge  charge
	out     [2]*os.File // the supervisor's ends of the task's output
	logs    [2]*logWriter
	drained chan struct{} // closed when both logs have ended
	control *control
	execs   execSessions

	began   chan int      // the command runs as this pid
	ended   chan struct{} // the command ended by itself; its remaining processes must end too
	allGone chan struct{} // closed when no process of the task is left

	started  bool
	told     bool      // told to stop before its end, by an agent or by stopWhenLost
	warned   []int64   // the ends of which the task was warned
	disk     bool      // ended for its disk usage
	full     bool      // because the node's disk was full, and not because the task grew
	detail   string    // why the supervisor stopped the task itself
	endedBy  string    // the party that ended the task without an order of the agent
	endedNs  int64     // when the command ended, by the clock of this boot; 0: not yet
	deadline time.Time // of a stop's grace
	killing  bool
	killedAt time.Time     // when the supervisor began to kill; zero: it did not
	roundAt  time.Time     // of the next round of killing …
	pause    time.Duration // … and the pause after it
	heard    int64
}

// Main runs one task's supervisor in the directory given as the only argument. It returns the exit code of the process.
func Main(args []string) int {
	// Collect early to keep the heap small. A limit on all memory would be below the runtime's own memory, so the
	// collector would run without end.
	debug.SetGCPercent(25)
	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "this sub-command is only for the agent: it supervises one task")
		return 2
	}
	unix.CloseOnExec(agentFD)
	unix.CloseOnExec(lockFD)
	// Other descriptors that the agent inherited must not reach the task.
	_ = unix.CloseRange(FirstHeld, ^uint(0), unix.CLOSE_RANGE_CLOEXEC)
	if err := os.Chdir(args[0]); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		return 1
	}
	k := &keeper{
		began: make(chan int, 1), ended: make(chan struct{}, 2), allGone: make(chan struct{}), drained: make(chan struct{}),
	}
	exit := k.run()
	k.keep(exit)
	return 0
}

// run runs the task from its start to its end.
func (k *keeper) run() *Exit {
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if exit := k.start(); exit != nil {
		return exit
	}
	k.hearExecs()
	for {
		var wake <-chan time.Time
		if d := k.due(); d > 0 {
			wake = time.After(d)
		}
		select {
		case c := <-k.control.commands:
			k.obey(c)
		case pid := <-k.began:
			k.becomeStarted(pid)
		case <-k.ended:
			k.noteEnd()
			k.execs.end()
			k.killing, k.roundAt = true, time.Now().Add(leftoverPatience)
		case <-k.allGone:
			k.noteEnd()
			return k.finish()
		case s := <-signals:
			if s != unix.SIGHUP {
				k.blame(ByHost)
				k.stop(k.spec.StopSignal, time.Duration(k.spec.GraceMs)*time.Millisecond)
				k.explain("the task's supervisor received " + s.String())
			}
		case <-wake:
			k.onWake()
		}
	}
}

// start reads the specification and starts the task.
func (k *keeper) start() *Exit {
	found, err := readJSON(specFile, &k.spec)
	k.control = openControl(k.spec.Key)
	if !found || err != nil {
		return setUpFailed(fmt.Errorf("read the specification: %w", errors.Join(err, errMissing(found))))
	}
	if err := k.takeSecrets(); err != nil {
		return setUpFailed(err)
	}
	if err := reserve(".", exitFile, exitReserve); err != nil {
		return setUpFailed(err)
	}
	if err := writeJSON(".", stateFile, State{BootID: k.spec.BootID}); err != nil {
		return setUpFailed(err)
	}
	if err := reserve(".", stateFile, stateReserve); err != nil {
		return setUpFailed(err)
	}
	// The time counts from before the start. The control plane counts from the last message that it received from
	// the node, and does not know when this task began.
	if k.heard = k.spec.HeardNs; k.heard <= 0 || k.heard > clock.BootNs() {
		k.heard = clock.BootNs()
	}
	switch {
	case k.spec.Container != nil:
		k.charge = newContained(k)
	case k.spec.Detached != nil:
		k.charge = newDetached(k)
	default:
		k.charge = newPlain(k)
	}
	return k.charge.start()
}

// note records the task's process before the process can do anything. If the record cannot be written, no other agent
// could find the process.
func (k *keeper) note(pid int) error {
	leader, _ := ReadProcess(pid)
	return writeJSON(".", stateFile, State{BootID: k.spec.BootID, PID: pid, Start: leader.Start})
}

func errMissing(found bool) error {
	if found {
		return nil
	}
	return os.ErrNotExist
}

func (k *keeper) becomeStarted(pid int) {
	if !k.started {
		k.started = true
		k.control.say("started " + strconv.Itoa(pid))
	}
}

// due returns how long the loop may sleep; 0: until something happens. It refers to a fixed time, so frequent messages
// do not delay the deadline.
func (k *keeper) due() time.Duration {
	switch {
	case k.killing:
		return max(time.Until(k.roundAt), time.Millisecond)
	case !k.deadline.IsZero():
		return max(time.Until(k.deadline), time.Millisecond)
	case k.spec.StopWhenLostMs > 0:
		// Timers stop while the host sleeps, but this deadline does not. It is therefore checked regularly.
		return max(min(k.untilLost(), fenceTick), time.Millisecond)
	}
	return 0
}

func (k *keeper) untilLost() time.Duration {
	return time.Duration(k.spec.StopWhenLostMs)*time.Millisecond - time.Duration(clock.BootNs()-k.heard)
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
			k.blame(ByNoContact)
			k.explain(fmt.Sprintf("stopped by stopWhenLost: the control plane has not received a message from this node "+
				"for %d ms", k.spec.StopWhenLostMs))
			k.stop(k.spec.StopSignal, time.Duration(k.spec.GraceMs)*time.Millisecond)
		}
	}
}

// noteEnd notes the time at which the command ended. Leftover processes and the output end later.
func (k *keeper) noteEnd() {
	if k.endedNs == 0 {
		k.endedNs = clock.BootNs()
	}
}

// blame notes the party that ends the task, unless the task was told to stop before.
func (k *keeper) blame(by string) {
	if !k.told && !k.killing {
		k.endedBy = by
	}
}

func (k *keeper) explain(why string) {
	if k.detail == "" {
		k.detail = why
	}
}

// obey executes an agent's command.
func (k *keeper) obey(c command) {
	switch c.verb {
	case "stop":
		k.stop(int(c.first), time.Duration(c.second))
	case "warn":
		k.warn(unix.Signal(c.first), c.second)
	case "signal":
		k.charge.signal(unix.Signal(c.first))
	case DiskBytes, DiskFiles, DiskFull, DiskGrew:
		if !k.disk { // an older word for the same reason may follow
			k.full = c.verb == DiskFull
		}
		k.disk, k.told = true, true
		k.explain(diskWords(c))
		k.kill()
	case "keep":
		// A time in the future comes from another clock and is ignored.
		if c.first > k.heard && c.first <= clock.BootNs() {
			k.heard = c.first
		}
	}
}

// warn signals the task once before each end. A later agent or leader may repeat the warning. The signal goes to the
// same processes as that of a stop.
func (k *keeper) warn(sig unix.Signal, end int64) {
	if k.told || k.killing || slices.Contains(k.warned, end) {
		return
	}
	k.warned = append(k.warned, end)
	k.charge.signal(sig)
}

// stop signals the task and begins the grace. A repeated stop can only shorten the grace.
func (k *keeper) stop(sig int, grace time.Duration) {
	if k.killing {
		return
	}
	k.told = true
	if sig <= 0 {
		sig = int(unix.SIGTERM)
	}
	until := time.Now().Add(grace)
	if k.deadline.IsZero() || until.Before(k.deadline) {
		k.deadline = until
	}
	k.charge.signal(unix.Signal(sig))
	k.charge.signal(unix.SIGCONT) // a stopped process cannot end
	if grace <= 0 {
		k.kill()
	}
}

// kill ends the grace and starts to kill.
func (k *keeper) kill() {
	k.execs.end()
	k.killing = true
	if k.killedAt.IsZero() {
		k.killedAt = time.Now()
	}
	k.killRound()
}

// killRound kills the remaining processes. It is repeated until none is left, because a process inside a system call
// dies only after the call.
func (k *keeper) killRound() {
	k.charge.killRound()
	k.pause = backoff.Next(k.pause, killAgain, maxKillAgain)
	k.roundAt = time.Now().Add(k.pause)
}

// finish returns how the task ended, after nothing of it is left.
func (k *keeper) finish() *Exit {
	select { // both events may have arrived
	case pid := <-k.began:
		k.becomeStarted(pid)
	default:
	}
	k.execs.settle()
	k.closeLogs()
	exit := k.charge.verdict()
	exit.ByItself = !k.told
	exit.Disk = k.disk && exit.Kind == Exited
	exit.NodeFull = exit.Disk && k.full
	exit.EndedNs, exit.EndedBy = k.endedNs, cmp.Or(k.endedBy, exit.EndedBy)
	for _, w := range k.logs {
		exit.DroppedLogBytes += w.dropped
	}
	return exit
}

// keep writes the exit record and reports it. While the disk refuses, the record stays in memory, and each new
// connection gets it.
func (k *keeper) keep(exit *Exit) {
	if exit.AtUnixMs == 0 {
		exit.AtUnixMs = time.Now().UnixMilli()
	}
	for {
		err := WriteExit(".", exit)
		if err == nil || errors.Is(err, os.ErrNotExist) { // the agent already has the exit and has forgotten the task
			break
		}
		if text, wrong := json.Marshal(exit); wrong == nil {
			k.control.say("gone " + string(text))
		}
		fmt.Fprintln(os.Stderr, "supervisor:", err)
		time.Sleep(recordAgain)
	}
	_ = os.Remove(controlFile)
	_ = os.Remove(execFile)
	text, err := json.Marshal(exit)
	if err == nil {
		k.control.say("gone " + string(text))
	}
}
