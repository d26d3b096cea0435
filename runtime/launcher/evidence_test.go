package launcher_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
)

// python returns a job that runs a Python program.
func python(t *testing.T, lines string) *messages.JobSpec {
	t.Helper()
	able.Need(t, able.Program("python3"))
	return script("cat > train.py <<'END'\n" + lines + "\nEND\nexec python3 train.py")
}

// scripted is a task that fails in one way, and the verdict on it.
type scripted struct {
	name   string
	spec   func(t *testing.T) *messages.JobSpec
	kernel []string // messages of the kernel, with PID for the pid of the task and KEY for its name
	act    func(t *testing.T, pid int)
	want   string // the class, and charged or free
	reason string // a part of the reason
}

func lines(text string) func(*testing.T) *messages.JobSpec {
	return func(*testing.T) *messages.JobSpec { return script(text) }
}

func program(text string) func(*testing.T) *messages.JobSpec {
	return func(t *testing.T) *messages.JobSpec { return python(t, text) }
}

func xid(n int) []string {
	return []string{fmt.Sprintf("NVRM: Xid (PCI:0000:17:00): %d, pid=PID, name=python3", n)}
}

const wait = untilGo

// endings lists failures of one task, with real processes. Messages of the kernel are fixtures.
var endings = []scripted{
	{name: "exit code", spec: lines("exit 3"), want: "user charged", reason: "exited with code 3"},
	{name: "no such command", spec: lines("no-such-command"), want: "user charged", reason: "not found"},
	{name: "not executable", spec: lines("echo > x; exec ./x"), want: "user charged", reason: "not executable"},
	{name: "exception", spec: program("import time\ndef f():\n  raise ValueError('bad shape')\nf()"), want: "user charged",
		reason: "ValueError: bad shape in train.py:3"},
	{name: "exception to stdout", spec: program("import sys, traceback\nsys.stderr = sys.stdout\nassert False, 'no data'"),
		want: "user charged", reason: "AssertionError: no data in train.py:3"},
	{name: "exit in Python", spec: program("import sys\nsys.exit(4)"), want: "user charged", reason: "code 4"},
	{name: "memory in Python", spec: program("x = bytearray(1 << 62)"), want: "out-of-memory charged",
		reason: "MemoryError in train.py:1"},
	{name: "CUDA memory", spec: program("class OutOfMemoryError(RuntimeError): pass\n" +
		"raise OutOfMemoryError('CUDA out of memory. Tried to allocate 2.00 GiB.')"), want: "out-of-memory charged",
		reason: "CUDA out of memory in train.py:2"},
	{name: "port taken", spec: program("import socket\na = socket.socket(); a.bind(('127.0.0.1', 0)); a.listen()\n" +
		"socket.socket().bind(a.getsockname())"), want: "user charged", reason: "Address already in use in train.py:3"},
	{name: "segfault", spec: program("import ctypes\nctypes.string_at(0)"), want: "user charged", reason: "SIGSEGV",
		kernel: []string{"python3[PID]: segfault at 0 ip 00007f sp 00007f error 4 in libc.so.6"}},
	{name: "bus error", spec: program("import mmap\nf = open('m', 'w+b'); f.truncate(4096)\n" +
		"m = mmap.mmap(f.fileno(), 4096); f.truncate(0); m[0]"), want: "user charged", reason: "SIGBUS"},
	{name: "abort", spec: program("import os\nos.abort()"), want: "user charged", reason: "SIGABRT"},
	{name: "division by zero", spec: lines("kill -FPE $$"), want: "user charged", reason: "SIGFPE"},
	{name: "killed from outside", spec: lines(wait), want: "unknown free",
		act: func(t *testing.T, pid int) { strike(t, pid, syscall.SIGKILL) }, reason: "SIGKILL of unknown origin"},
	{name: "terminated from outside", spec: lines(wait), want: "unknown free",
		act: func(t *testing.T, pid int) { strike(t, pid, syscall.SIGTERM) }, reason: "SIGTERM"},
	{name: "child killed", spec: lines("sh -c 'kill -KILL $$'; exit $?"), want: "unknown free", reason: "SIGKILL"},
	{name: "Xid 79", spec: program("raise RuntimeError('CUDA error: unspecified launch failure')"), kernel: xid(79),
		want: "gpu free", reason: "Xid 79"},
	{name: "Xid 31", spec: lines("exit 1"), kernel: xid(31), want: "user charged", reason: "Xid 31"},
	{name: "Xid 31 and 48", spec: lines("exit 1"), kernel: append(xid(31), xid(48)...), want: "gpu free",
		reason: "Xid 48"},
	{name: "Xid of another GPU", spec: lines("exit 1"),
		kernel: []string{"NVRM: Xid (PCI:0000:99:00): 79, pid=PID, GPU has fallen off the bus."}, want: "user charged"},
	{name: "printed Xid", spec: lines("echo 'NVRM: Xid (PCI:0000:17:00): 79, GPU has fallen off the bus.' >&2; exit 1"),
		want: "user charged"},
	{name: "bad memory", spec: lines(wait), act: func(t *testing.T, pid int) { strike(t, pid, syscall.SIGBUS) },
		kernel: []string{"Memory failure: 0x12: Sending SIGBUS to python3:PID due to hardware memory corruption"},
		want:   "node free", reason: "hardware memory corruption"},
	{name: "failed disk", spec: program("raise OSError(5, 'Input/output error')"),
		kernel: []string{"I/O error, dev sdb, sector 8 op 0x0:(READ)"}, want: "storage free", reason: "dev sdb"},
	{name: "failed link", spec: program("raise RuntimeError('NCCL error: remote process exited or network error')"),
		kernel: []string{"mlx5_core 0000:17:00.0 ib0: Link down"}, want: "network free", reason: "Link down"},
}

func strike(t *testing.T, pid int, s syscall.Signal) {
	t.Helper()
	if err := syscall.Kill(pid, s); err != nil {
		t.Error(err)
	}
}

// TestEndings checks the class of each ending, whether the user is charged, and the reason.
func TestEndings(t *testing.T) {
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			t.Parallel()
			found, exit := e.play(t)
			got := verdict.Word(found.Class) + " free"
			if found.Charged {
				got = verdict.Word(found.Class) + " charged"
			}
			reason := found.Reason + " " + found.Explain
			if got != e.want || !strings.Contains(reason, e.reason) {
				t.Errorf("%s: %s, want %s: %s\n%v", got, reason, e.want, e.reason, exit)
			}
		})
	}
}

// play runs a task with its ending. The kernel's messages appear while the task runs.
func (e scripted) play(t *testing.T) (verdict.Finding, *messages.Exit) {
	dir, log := room(t), filepath.Join(t.TempDir(), "kmsg")
	r := newRig(t, dir, func(o *launcher.Options) {
		o.KernelLog = log
		o.Gpus = []*messages.Gpu{{Id: "gpu-0", BusId: "00000000:17:00.0", Declared: true}}
	})
	spec := e.spec(t)
	spec.Command[2] = wait + spec.Command[2]
	start := startOf(0, spec)
	start.Grant.Gpus = []*messages.GpuShare{{GpuId: "gpu-0", Milli: 1000}}
	prepare := prepareOf(0, spec)
	prepare.Grant = start.Grant
	r.tell(prepare)
	take[*messages.TaskPrepared](r, 0)
	r.tell(start)
	take[*messages.TaskStarted](r, 0)
	state, err := supervisor.ReadState(filepath.Join(dir, "tasks", id(0).Key().String()))
	if err != nil || state == nil {
		t.Fatal(state, err)
	}
	var text strings.Builder
	for _, line := range e.kernel {
		line = strings.ReplaceAll(line, "PID", fmt.Sprint(state.PID))
		fmt.Fprintf(&text, "3,1,%d,-;%s\n", clock.BootNs()/1000, line)
	}
	if err := os.WriteFile(log, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	if e.act != nil {
		e.act(t, state.PID)
	} else {
		letGo(t, dir, 0)
	}
	exit := r.gone(0)
	return verdict.Classify(exit), exit
}

// TestEvidence checks the texts and the step of a failed task, and that the time of its end is that of the process. The
// next agent finds the same.
func TestEvidence(t *testing.T) {
	dir := room(t)
	r := newRig(t, dir, nil)
	r.run(0, python(t, `import os, sys
open(os.environ["SYNAPSE_PROGRESS"], "a").write('{"step":12,"total":100}\n')
print("one\ntwo", file=sys.stderr)
{}["x"]`))
	take[*messages.TaskStarted](r, 0)
	gone := take[*messages.TaskGone](r, 0)
	e := gone.Exit.Evidence
	if e.Error != "KeyError: 'x'" || e.Frame != "train.py:4" || e.Step != 12 || len(e.Output) < 4 || e.Output[0] != "one" {
		t.Errorf("%v", e)
	}
	if gone.EndedNs < gone.StartedNs || gone.EndedNs > clock.BootNs() {
		t.Errorf("it ran from %d to %d", gone.StartedNs, gone.EndedNs)
	}
	r.l.Close()
	r = newRig(t, dir, nil)
	r.tell(&messages.AdoptTask{Id: id(0)})
	again := take[*messages.TaskGone](r, 0)
	if again.Exit.Evidence.String() != e.String() || again.EndedNs != gone.EndedNs {
		t.Errorf("the next agent: %v, before: %v", again, gone)
	}
	r.run(1, script("echo fine >&2"))
	if exit := r.gone(1); exit.Evidence != nil {
		t.Errorf("a success has %v", exit.Evidence)
	}
	r.run(2, script("echo text >&2; exec sleep 600"))
	take[*messages.TaskStarted](r, 2)
	r.tell(&messages.StopTask{Id: id(2)})
	if exit := r.gone(2); len(exit.Evidence.GetOutput()) > 0 {
		t.Errorf("a stopped task has %v", exit.Evidence)
	}
}
