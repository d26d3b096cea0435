package launcher_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/supervisor"
)

const (
	exited       = messages.ExitKind_EXIT_KIND_EXITED
	neverStarted = messages.ExitKind_EXIT_KIND_NEVER_STARTED
	lost         = messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST
	rebooted     = messages.ExitKind_EXIT_KIND_REBOOTED
)

// TestLife runs a task from Prepare to Forget and sends each command twice.
func TestLife(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script(`echo "$SYNAPSE_RANK of $SYNAPSE_WORLD_SIZE in $PWD"; cat "$SYNAPSE_HOSTFILE"; echo problem >&2; exit 4`)
	r.tell(prepareOf(0, spec))
	take[*messages.TaskPrepared](r, 0)
	r.tell(prepareOf(0, spec))
	take[*messages.TaskPrepared](r, 0)
	r.tell(startOf(0, spec))
	r.tell(startOf(0, spec))
	take[*messages.TaskStarted](r, 0)
	exit := r.gone(0)
	if exit.Kind != exited || exit.Code != 4 || exit.AtUnixMs == 0 || exit.PeakMemoryBytes == 0 {
		t.Errorf("%v", exit)
	}
	for _, again := range []any{
		startOf(0, spec), prepareOf(0, spec), &messages.StopTask{Id: id(0), GraceMs: 1000}, &messages.AdoptTask{Id: id(0)},
	} {
		r.tell(again)
		for { // either state may have answered the second Start
			if e := r.gone(0); proto.Equal(e, exit) {
				break
			}
		}
	}
	scratch := filepath.Join(r.dir, "scratch", "00000003.00000007-0")
	if out := r.read(0, false); out != fmt.Sprintf("0 of 1 in %s\n127.0.0.1 slots=1\n", scratch) {
		t.Errorf("%q", out)
	}
	if out := r.read(0, true); out != "problem\n" {
		t.Errorf("%q", out)
	}
	r.tell(&messages.ForgetTask{Id: id(0)})
	r.tell(&messages.ForgetTask{Id: id(0)})
	eventually(t, "it is not forgotten", func() bool {
		r.tell(&messages.ListTasks{})
		return len(take[*messages.TaskList](r, -1).Tasks) == 0
	})
	if out := r.read(0, true); out != "problem\n" {
		t.Errorf("what is kept reads %q", out)
	}
	if left, _ := os.ReadDir(filepath.Join(r.dir, "scratch")); len(left) > 0 {
		t.Errorf("left %v", left)
	}
	r.tell(&messages.AdoptTask{Id: id(0)})
	if e := r.gone(0); e.Kind != lost {
		t.Errorf("%v", e)
	}
}

// read reads the whole output of a task, page by page.
func (r *rig) read(rank int32, stderr bool) string {
	r.t.Helper()
	var all strings.Builder
	for range 100_000 {
		r.tell(&messages.LogsTask{Id: id(rank), Stderr: stderr, Offset: int64(all.Len()), LimitBytes: 7})
		page := take[*messages.TaskLogs](r, rank)
		if page.Offset != int64(all.Len()) || len(page.Data) > 7 {
			r.t.Fatalf("%v after %d bytes", page, all.Len())
		}
		all.Write(page.Data)
		if page.End {
			return all.String()
		}
	}
	r.t.Fatal("no end")
	return ""
}

// TestUnknown checks that a command about an unknown task gets an answer.
func TestUnknown(t *testing.T) {
	r := newRig(t, room(t), nil)
	r.tell(&messages.StopTask{Id: id(0), GraceMs: 1000})
	if e := r.gone(0); e.Kind != neverStarted {
		t.Errorf("%v", e)
	}
	r.tell(&messages.AdoptTask{Id: id(0)})
	if e := r.gone(0); e.Kind != lost {
		t.Errorf("%v", e)
	}
	r.tell(&messages.LogsTask{Id: id(0), Offset: 5, LimitBytes: 10})
	if p := take[*messages.TaskLogs](r, 0); !p.End || len(p.Data) > 0 || p.Offset != 5 {
		t.Errorf("%v", p)
	}
	r.tell(&messages.SignalTask{Id: id(0), Signal: 15})
	r.tell(&messages.StatsTask{Id: id(0)})
	r.tell(&messages.ForgetTask{Id: id(0)})
	r.tell(&messages.KeepTasks{HeardNs: 1})
	r.tell(&messages.ListTasks{})
	if l := take[*messages.TaskList](r, -1); len(l.Tasks) > 0 {
		t.Errorf("%v", l)
	}
	r.silent()
	if entries, _ := os.ReadDir(filepath.Join(r.dir, "tasks")); len(entries) > 0 {
		t.Errorf("a question left %v", entries)
	}
}

// TestRefused checks that Prepare refuses a request that the driver does not support, names the field, and refuses it
// again when repeated.
func TestRefused(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script("true")
	spec.Image = "registry.example/train:1"
	r.tell(prepareOf(0, spec))
	exit := r.gone(0)
	if exit.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED || !strings.HasPrefix(exit.Detail, "image: ") {
		t.Errorf("%v", exit)
	}
	r.tell(startOf(0, spec))
	if again := r.gone(0); !proto.Equal(again, exit) {
		t.Errorf("%v", again)
	}
}

// TestOddWords checks that the reason why a task did not run arrives even if it quotes bytes that are not text. Such
// bytes may be in the name of a program or of a file in an image. The rig refuses what the leader would refuse. The
// leader would drop such a message, and the launcher would resend it forever.
func TestOddWords(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script("true")
	spec.Command = []string{"/no\r\x1b[2J\xffprogram" + strings.Repeat("é", 3_000)}
	r.run(0, spec)
	exit := r.gone(0)
	if exit.Kind != exited || exit.Code != 126 || !strings.Contains(exit.Detail, "/no??[2J\ufffdprogram") {
		t.Errorf("%v", exit)
	}
}

// TestStopBeforeStart checks that an earlier stop prevents a later start.
func TestStopBeforeStart(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script("sleep 60")
	r.tell(prepareOf(0, spec))
	r.tell(&messages.StopTask{Id: id(0)})
	r.tell(startOf(0, spec))
	if exit := r.gone(0); exit.Kind != neverStarted {
		t.Errorf("%v", exit)
	}
	r.tell(&messages.ListTasks{})
	list := take[*messages.TaskList](r, -1).Tasks
	if len(list) != 1 || list[0].Started || list[0].Exit.GetKind() != neverStarted {
		t.Errorf("%v", list)
	}
}

// TestRunning checks that a running task can be signalled, measured and stopped.
func TestRunning(t *testing.T) {
	r := newRig(t, room(t), nil)
	spec := script(`trap 'echo usr1' USR1; trap 'exit 6' TERM; echo ready; while :; do sleep 0.01; done`)
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	r.tell(&messages.SignalTask{Id: id(0), Signal: int32(unix.SIGUSR1)})
	r.await(0, "ready\nusr1\n")
	r.tell(&messages.StatsTask{Id: id(0)})
	if s := take[*messages.TaskStats](r, 0); s.Processes < 1 || s.MemoryBytes <= 0 || s.PeakMemoryBytes < s.MemoryBytes {
		t.Errorf("%v", s)
	}
	r.tell(&messages.AdoptTask{Id: id(0)})
	take[*messages.TaskStarted](r, 0)
	r.tell(&messages.ForgetTask{Id: id(0)}) // has no effect, because the task runs
	r.tell(&messages.StopTask{Id: id(0), GraceMs: 60_000})
	if exit := r.gone(0); exit.Code != 6 || exit.Kind != exited {
		t.Errorf("%v", exit)
	}
}

// await waits until the task has written this text.
func (r *rig) await(rank int32, text string) {
	r.t.Helper()
	eventually(r.t, "no output "+text, func() bool {
		r.tell(&messages.LogsTask{Id: id(rank), LimitBytes: 1 << 20})
		page := take[*messages.TaskLogs](r, rank)
		if page.End {
			r.t.Fatalf("it has ended with %q", page.Data)
		}
		return string(page.Data) == text
	})
}

// TestAgentKilled checks that running tasks continue without their agent, and that tasks that ended meanwhile are
// reported completely.
func TestAgentKilled(t *testing.T) {
	dir := room(t)
	killedAgent(t, dir, `trap 'exit 9' TERM; echo on; while :; do sleep 0.01; done`, untilGo+`exit 77`,
		untilGo+`kill -SEGV $$`, `exec sleep 60`)
	for _, rank := range []int32{1, 2} {
		letGo(t, dir, rank)
		eventually(t, fmt.Sprintf("rank %d has not ended", rank), func() bool {
			exit, _ := supervisor.ReadExit(filepath.Join(dir, "tasks", id(rank).Key().String()))
			return exit != nil
		})
	}
	begin := time.Now()
	r := newRig(t, dir, nil)
	r.tell(&messages.ListTasks{})
	list := take[*messages.TaskList](r, -1).Tasks
	if len(list) != 4 || slices.ContainsFunc(list,
		func(e *messages.TaskEntry) bool { return !e.Started || !e.Prepared }) || list[0].Exit != nil {
		t.Fatalf("%v", list)
	}
	if s := list[3].Stop; s.GetSignal() != 15 || s.GetGraceMs() != 45_000 {
		t.Errorf("who has lost all else is to stop it by %v", s)
	}
	for rank := range int32(4) {
		r.tell(&messages.AdoptTask{Id: id(rank)})
	}
	if e := r.gone(1); e.Kind != exited || e.Code != 77 {
		t.Errorf("%v", e)
	}
	if e := r.gone(2); e.Kind != exited || e.Code != 139 || e.Signal != 11 {
		t.Errorf("%v", e)
	}
	take[*messages.TaskStarted](r, 0)
	take[*messages.TaskStarted](r, 3)
	if took := time.Since(begin); took > soon {
		t.Errorf("adopted after %v", took)
	}
	r.await(0, "on\n")
	r.tell(startOf(0, script("echo again")))
	take[*messages.TaskStarted](r, 0)
	r.tell(&messages.StopTask{Id: id(0), GraceMs: 60_000})
	if e := r.gone(0); e.Code != 9 {
		t.Errorf("%v", e)
	}
	if out := r.read(0, false); out != "on\n" {
		t.Errorf("it was started twice: %q", out)
	}
}

// TestReboot checks that a reboot ends all running tasks and leaves earlier exit records unchanged.
func TestReboot(t *testing.T) {
	dir := room(t)
	first := newRig(t, dir, nil)
	first.run(0, script("exit 3"))
	first.gone(0)
	first.run(1, script("exec sleep 60"))
	take[*messages.TaskStarted](first, 1)
	first.tell(prepareOf(2, script("true")))
	take[*messages.TaskPrepared](first, 2)
	first.tell(&messages.ListTasks{})
	take[*messages.TaskList](first, -1)
	first.l.Close()
	kill(t, dir, 1) // imitates a power failure

	r := newRig(t, dir, func(o *launcher.Options) { o.BootID = "boot-2" })
	r.tell(&messages.ListTasks{})
	list := take[*messages.TaskList](r, -1).Tasks
	if len(list) != 3 {
		t.Fatalf("%v", list)
	}
	if e := list[0].Exit; e.GetKind() != exited || e.GetCode() != 3 {
		t.Errorf("%v", e)
	}
	if e := list[1]; e.Exit.GetKind() != rebooted || !e.Started {
		t.Errorf("%v", e)
	}
	if e := list[2]; e.Exit.GetKind() != neverStarted || e.Started {
		t.Errorf("%v", e)
	}
}

// kill kills the supervisor of a task and returns the pid of the task's command.
func kill(t *testing.T, dir string, rank int32) int {
	t.Helper()
	home := filepath.Join(dir, "tasks", id(rank).Key().String())
	state, err := supervisor.ReadState(home)
	if err != nil || state == nil || state.PID == 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	leader, ok := supervisor.ReadProcess(state.PID)
	if !ok {
		t.Fatal("the command has gone")
	}
	keeper, _ := supervisor.ReadProcess(leader.Parent)
	if err := keeper.Send(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the supervisor lives", func() bool {
		alive, err := supervisor.Lives(home)
		return err == nil && !alive
	})
	return state.PID
}

// TestSupervisorKilled checks that all processes of the task are gone before that is reported, also processes that left
// its session or cleared their environment.
func TestSupervisorKilled(t *testing.T) {
	r := newRig(t, room(t), nil)
	mark := filepath.Join(t.TempDir(), "mark")
	stray := fmt.Sprintf(`sh -c 'trap "" TERM; while :; do sleep 1; done' %s & `, mark)
	daemon := fmt.Sprintf(`(setsid sh -c 'while :; do sleep 1; done' %s &) ; `, mark)
	bare := fmt.Sprintf(`env -i /bin/sh -c 'while :; do /bin/sleep 1; done' %s & `, mark)
	r.run(0, script(stray+daemon+bare+"echo ready; wait"))
	take[*messages.TaskStarted](r, 0)
	r.await(0, "ready\n")
	eventually(t, "not all run", func() bool { return withArgument(mark) == 3 })
	kill(t, r.dir, 0)
	exit := r.gone(0)
	if exit.Kind != lost {
		t.Errorf("%v", exit)
	}
	if n := withArgument(mark); n > 0 {
		t.Errorf("%d processes outlived the evidence", n)
	}
	r.tell(&messages.AdoptTask{Id: id(0)})
	if again := r.gone(0); !proto.Equal(again, exit) {
		t.Errorf("%v", again)
	}
}

func withArgument(argument string) int {
	n := 0
	for _, p := range supervisor.Processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if p.State != 'Z' && bytes.HasSuffix(line, []byte("\x00"+argument+"\x00")) {
			n++
		}
	}
	return n
}

// TestSupervisorKilledWhileAway checks that the next agent detects a killed supervisor.
func TestSupervisorKilledWhileAway(t *testing.T) {
	dir := room(t)
	killedAgent(t, dir, `sleep 60 & sleep 60`)
	kill(t, dir, 0)
	r := newRig(t, dir, nil)
	r.tell(&messages.AdoptTask{Id: id(0)})
	if e := r.gone(0); e.Kind != lost {
		t.Errorf("%v", e)
	}
}

// TestSupervisorEndsAtOnce checks a node that cannot run supervisors. The node is at fault and is closed. The task
// counts as never started, not as lost.
func TestSupervisorEndsAtOnce(t *testing.T) {
	r := newRig(t, room(t), func(o *launcher.Options) { o.Supervisor = []string{"/bin/false"} })
	r.run(0, script("exit 0"))
	e := r.gone(0)
	if e.Kind != messages.ExitKind_EXIT_KIND_LAUNCH_FAILED || e.Fault != messages.Fault_FAULT_MACHINE || e.Code == 0 {
		t.Errorf("%v", e)
	}
}

// TestTornExit checks that an unreadable exit record never counts as a success.
func TestTornExit(t *testing.T) {
	dir := room(t)
	first := newRig(t, dir, nil)
	first.run(0, script("exit 0"))
	first.gone(0)
	first.l.Close()
	name := filepath.Join(dir, "tasks", id(0).Key().String(), "exit.json")
	for _, torn := range []string{"", "{\"kind\":\"exi", strings.Repeat("\x00", 4096)} {
		if err := os.WriteFile(name, []byte(torn), 0o600); err != nil {
			t.Fatal(err)
		}
		r := newRig(t, dir, nil)
		r.tell(&messages.AdoptTask{Id: id(0)})
		if e := r.gone(0); e.Kind != lost {
			t.Errorf("%q: %v", torn, e)
		}
		r.l.Close()
	}
}

// TestKeepTasks checks that the time of an acknowledged heartbeat reaches the supervisors of this agent and of earlier
// agents.
func TestKeepTasks(t *testing.T) {
	r := newRig(t, room(t), nil)
	const fence = 3 * time.Second // longer than a busy host delays this test
	spec := script("exec sleep 60")
	spec.StopWhenLostMs, spec.Stop = fence.Milliseconds(), &messages.StopSpec{GraceMs: 60_000}
	r.run(0, spec)
	take[*messages.TaskStarted](r, 0)
	var heard int64
	for begin := time.Now(); time.Since(begin) < fence+time.Second; time.Sleep(100 * time.Millisecond) {
		heard = clock.BootNs()
		r.tell(&messages.KeepTasks{HeardNs: heard})
	}
	r.silent()
	exit := r.gone(0)
	if took := time.Duration(clock.BootNs() - heard); exit.Code != 143 || !strings.Contains(exit.Detail, "stopWhenLost") ||
		took < fence {
		t.Errorf("%v after %v", exit, took)
	}
}

// TestManyAtOnce checks that two hundred tasks leave no descriptors and no processes behind.
func TestManyAtOnce(t *testing.T) {
	r := newRig(t, room(t), nil)
	r.run(1000, script("exit 0")) // opens everything that is opened only once
	r.gone(1000)
	before := descriptors(t)
	const n = 200
	for rank := range int32(n) {
		spec := script(fmt.Sprintf("exit %d", rank%100))
		r.tell(prepareOf(rank, spec))
		r.tell(startOf(rank, spec))
	}
	for rank := range int32(n) {
		if e := r.gone(rank); e.Kind != exited || e.Code != rank%100 {
			t.Fatalf("rank %d: %v", rank, e)
		}
		r.tell(&messages.ForgetTask{Id: id(rank)})
	}
	eventually(t, "descriptors are left", func() bool { return descriptors(t) <= before })
	eventually(t, "supervisors are left", func() bool { return withArgumentPrefix(r.dir) == 0 })
	eventually(t, "tasks are left", func() bool { return len(r.keys()) <= 1 })
}

func withArgumentPrefix(prefix string) int {
	n := 0
	for _, p := range supervisor.Processes() {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if bytes.Contains(line, []byte("\x00"+prefix)) {
			n++
		}
	}
	return n
}

func descriptors(t *testing.T) int {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(entries)
}
