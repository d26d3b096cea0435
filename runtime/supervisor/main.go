package supervisor

import (
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
	// FirstHeld is the first of what else it was told to pass.
	FirstHeld = 5
)

const (
	leftoverPatience = 2 * time.Millisecond // for what ends together with the command
	killAgain        = 20 * time.Millisecond
	maxKillAgain     = 250 * time.Millisecond
	fenceTick        = time.Second
	drainPatience    = 200 * time.Millisecond // for output that somebody outside still holds open
	recordAgain      = time.Second
)

// charge is the task of one supervisor. Its methods are called from the loop.
type charge interface {
	// start begins; what follows comes through the keeper's channels. An exit: it was
	// never run, and nothing of it is there.
	start() *Exit
	signal(unix.Signal)
	// killRound kills what is there now. It is called again and again until all is gone.
	killRound()
	// ending reports whether its first process is on its way out, and has the kernel kill what else runs in there.
	ending() bool
	// verdict is how it ended, once allGone is closed.
	verdict() *Exit
	// exec runs an exec session of the task, which ends with it. It is called beside the loop, and may take long.
	exec(carapace.ExecSpec) (execProcess, error)
}

// keeper is a supervisor at work.
type keeper struct {
	spec    Spec
	charge  charge
	out     [2]*os.File // our ends of the task's output
	logs    [2]*logWriter
	drained chan struct{} // closed when both logs have ended
	control *control
	execs   execSessions

	began   chan int      // the command runs, as this process
	ended   chan struct{} // it has ended by itself; what is left of it is to follow
	allGone chan struct{} // closed when no process of the task is left

	started  bool
	told     bool      // to stop, by somebody or by its fence, before it had ended
	warned   []int64   // the ends of which it was
	disk     bool      // it was ended for what it kept on the disk
	detail   string    // why we stopped it, where nobody asked
	deadline time.Time // of a stop's grace
	killing  bool
	killedAt time.Time     // when we began to kill what had not ended by itself; zero: we did not
	roundAt  time.Time     // of the next round of killing …
	pause    time.Duration // … and how long the one after it waits
	heard    int64
}

// Main runs one task's supervisor in the directory given as the only argument.
// It returns the exit code of the process.
func Main(args []string) int {
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

// run is the task from its start to its end.
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
			k.execs.end()
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
	found, err := readJSON(specFile, &k.spec)
	k.control = openControl(k.spec.Key)
	if !found || err != nil {
		return setUpFailed(fmt.Errorf("specification: %w", errors.Join(err, errMissing(found))))
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
	// Counted from before the start: the control plane counts from when it last received something from the machine, and
	// knows nothing of when this task began.
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

// note writes down which process the task is, before it can do anything. Where that
// cannot be written nobody else could find it.
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
			k.explain(fmt.Sprintf("stopped by stopWhenLost: the control plane has not heard this machine for %d ms",
				k.spec.StopWhenLostMs))
			k.stop(k.spec.StopSignal, time.Duration(k.spec.GraceMs)*time.Millisecond)
		}
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
		k.disk, k.told = true, true
		k.explain(diskWords(c))
		k.kill()
	case "keep":
		// A time that is still to come is of another clock and says nothing.
		if c.first > k.heard && c.first <= clock.BootNs() {
			k.heard = c.first
		}
	}
}

// warn signals ahead of an end, once for each: an agent that came later, or one that another leader told, says it
// again. The signal goes where that of a stop goes.
func (k *keeper) warn(sig unix.Signal, end int64) {
	if k.told || k.killing || slices.Contains(k.warned, end) {
		return
	}
	k.warned = append(k.warned, end)
	k.charge.signal(sig)
}

// stop signals and begins the grace. Said again it can only shorten it.
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
	k.charge.signal(unix.SIGCONT) // what is stopped cannot end
	if grace <= 0 {
		k.kill()
	}
}

// kill ends the grace.
func (k *keeper) kill() {
	k.execs.end()
	k.killing = true
	if k.killedAt.IsZero() {
		k.killedAt = time.Now()
	}
	k.killRound()
}

// killRound kills what is left. It is repeated until nothing is, because a process
// in the kernel's hands dies when it is let go.
func (k *keeper) killRound() {
	k.charge.killRound()
	k.pause = backoff.Next(k.pause, killAgain, maxKillAgain)
	k.roundAt = time.Now().Add(k.pause)
}

// finish gathers how it ended, once nothing of it is left.
func (k *keeper) finish() *Exit {
	select { // both may have come at once
	case pid := <-k.began:
		k.becomeStarted(pid)
	default:
	}
	k.execs.settle()
	k.closeLogs()
	exit := k.charge.verdict()
	exit.ByItself = !k.told
	exit.Disk = k.disk && exit.Kind == Exited
	for _, w := range k.logs {
		exit.DroppedLogBytes += w.dropped
	}
	return exit
}

// keep makes the exit durable and tells it. While the disk refuses, the record lives here, and the agent is told of it
// at every connection.
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
	_ = os.Remove(execFile)
	text, err := json.Marshal(exit)
	if err == nil {
		k.control.say("gone " + string(text))
	}
}
