package supervisor

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file owns what only real processes can show of one supervisor. Each test
// leaves nothing: what it starts has ended when it ends.

var soon = 30 * time.Second

// rig is one task's directory and what an agent does with it.
type rig struct {
	t    *testing.T
	dir  string
	link *Link
}

func start(t *testing.T, script string, change func(*Spec)) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	spec := &Spec{
		Path: "/bin/sh", Args: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin", "MARK=" + r.dir}, Dir: "/",
		BootID: "boot",
	}
	if change != nil {
		change(spec)
	}
	link, err := Start(r.dir, spec, []string{"/proc/self/exe", SubCommand})
	if err != nil {
		t.Fatal(err)
	}
	r.link = link
	t.Cleanup(func() {
		_ = link.Stop(9, 0)
		r.nothingLeft()
	})
	return r
}

// wait is how the task ended, as the link and the record both have it.
func (r *rig) wait() *Exit {
	r.t.Helper()
	for {
		got := make(chan Event, 1)
		go func() { got <- r.link.Next() }()
		select {
		case e := <-got:
			if e.Closed {
				r.t.Fatal("the supervisor went without a word")
			}
			if e.Exit == nil {
				continue
			}
			record, err := ReadExit(r.dir)
			if err != nil || record == nil || *record != *e.Exit {
				r.t.Fatalf("told %+v, wrote %+v, %v", e.Exit, record, err)
			}
			return e.Exit
		case <-time.After(soon):
			r.t.Fatal("the task has not ended")
		}
	}
}

func (r *rig) started() {
	r.t.Helper()
	if e := r.link.Next(); !e.Started {
		r.t.Fatalf("not started but %+v", e)
	}
}

// nothingLeft: no supervisor, and no process that carries the task's mark.
func (r *rig) nothingLeft() {
	r.t.Helper()
	eventually(r.t, "something of the task is left", func() bool {
		alive, err := Lives(r.dir)
		return err == nil && !alive && len(marked(r.dir)) == 0
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	if !pace.Wait(soon, holds) {
		t.Fatal(what)
	}
}

func marked(dir string) []int {
	var pids []int
	for _, p := range Processes() {
		env, _ := Environ(p.PID)
		if p.State != 'Z' && strings.Contains(string(env), "MARK="+dir+"\x00") {
			pids = append(pids, p.PID)
		}
	}
	return pids
}

func (r *rig) output(stream string) string {
	r.t.Helper()
	_, data, _, err := ReadLog(r.dir, stream, 0, 1<<20)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(data)
}

// TestExitCodes: the code and the signal are the command's own, to the last bit.
func TestExitCodes(t *testing.T) {
	noProgram := filepath.Join(t.TempDir(), "garbage")
	if err := os.WriteFile(noProgram, []byte{0x7f, 'E', 'L', 'F', 0, 1, 2}, 0o755); err != nil {
		t.Fatal(err)
	}
	noInterpreter := filepath.Join(t.TempDir(), "orphan")
	if err := os.WriteFile(noInterpreter, []byte("#!/no/such/shell\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name         string
		script       string
		change       func(*Spec)
		code, signal int
		detail       string
	}{
		{name: "success", script: "true"},
		{name: "one", script: "exit 1", code: 1},
		{name: "255", script: "exit 255", code: 255},
		{name: "terminated", script: "kill -TERM $$", code: 143, signal: 15},
		{name: "killed by itself is no OOM", script: "kill -KILL $$", code: 137, signal: 9},
		{name: "segfault", script: "kill -SEGV $$", code: 139, signal: 11},
		{name: "not found", change: func(s *Spec) { s.Path = "no-such-program" }, code: 127, detail: "is not found in PATH"},
		{name: "no such path", change: func(s *Spec) { s.Path = "/no/such" }, code: 127,
			detail: "command: /no/such is not found"},
		{name: "no interpreter", change: func(s *Spec) { s.Path = noInterpreter }, code: 127, detail: "the interpreter of"},
		{name: "not executable", change: func(s *Spec) { s.Path = "/etc/passwd" }, code: 126, detail: "permission denied"},
		{name: "no program", change: func(s *Spec) { s.Path = noProgram }, code: 126, detail: "no program"},
		{name: "no workdir", script: "true", change: func(s *Spec) { s.Dir = "/no/such" }, code: 126,
			detail: "workdir: /no/such"},
		{name: "no command", change: func(s *Spec) { s.Path = "" }, code: 127, detail: "command: is empty"},
	} {
		t.Run(c.name, func(t *testing.T) {
			exit := start(t, c.script, c.change).wait()
			if exit.Kind != Exited || exit.Code != c.code || exit.Signal != c.signal || exit.OOM ||
				!strings.Contains(exit.Detail, c.detail) {
				t.Errorf("%+v", exit)
			}
			if exit.AtUnixMs == 0 {
				t.Error("no time")
			}
		})
	}
}

// TestStop: the signal first, the kill when the grace is over, and not before.
func TestStop(t *testing.T) {
	ready := `echo ready; `
	for _, c := range []struct {
		name, script string
		signal       int
		grace        time.Duration
		code         int
		atLeast      time.Duration
	}{
		{"polite", `trap 'exit 7' TERM; ` + ready + `while :; do sleep 0.01; done`, 15, time.Minute, 7, 0},
		{"own signal", `trap 'exit 8' USR1; ` + ready + `while :; do sleep 0.01; done`, 10, time.Minute, 8, 0},
		{"default", ready + `sleep 60`, 15, time.Minute, 143, 0},
		{"deaf", `trap '' TERM; ` + ready + `while :; do sleep 0.01; done`, 15, 300 * time.Millisecond, 137, 300 * time.Millisecond},
		{"no grace", `trap '' TERM; ` + ready + `while :; do sleep 0.01; done`, 15, 0, 137, 0},
		{"stopped", ready + `kill -STOP $$; sleep 60`, 15, time.Minute, 143, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.script, nil)
			r.started()
			eventually(t, "no output", func() bool { return r.output(Stdout) == "ready\n" })
			begin := time.Now()
			if err := r.link.Stop(c.signal, c.grace); err != nil {
				t.Fatal(err)
			}
			exit := r.wait()
			if exit.Code != c.code || time.Since(begin) < c.atLeast || time.Since(begin) > soon {
				t.Errorf("%+v after %v", exit, time.Since(begin))
			}
		})
	}
}

// TestStopShortened: somebody has lost patience.
func TestStopShortened(t *testing.T) {
	r := start(t, `trap '' TERM; echo ready; while :; do sleep 0.01; done`, nil)
	r.started()
	eventually(t, "no output", func() bool { return r.output(Stdout) == "ready\n" })
	_ = r.link.Stop(15, time.Hour)
	_ = r.link.Stop(15, 2*time.Hour)
	_ = r.link.Stop(15, 50*time.Millisecond)
	if exit := r.wait(); exit.Code != 137 {
		t.Errorf("%+v", exit)
	}
}

// TestNothingSurvives: whatever a task leaves behind goes with it, and the end is
// told only then.
func TestNothingSurvives(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"background", `sleep 60 & sleep 60 & exit 3`},
		{"own session", `setsid sleep 60 & exit 3`},
		{"daemon", `(setsid sh -c 'trap "" TERM HUP; sleep 60 & sleep 60' >/dev/null 2>&1 &) ; exit 3`},
		{"deaf child", `sh -c 'trap "" TERM INT HUP; while :; do sleep 1; done' & exit 3`},
		{"ignored output", `exec 3>&1; (setsid sh -c 'sleep 60' >&3 2>&3 &); exit 3`},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, c.script, nil)
			exit := r.wait()
			if exit.Code != 3 {
				t.Errorf("%+v", exit)
			}
			if left := marked(r.dir); len(left) > 0 {
				t.Errorf("processes %v outlived the evidence", left)
			}
		})
	}
}

// TestForkBomb: processes that fork, leave their session and lose their parents faster than anybody could kill them
// one by one still come to an end.
func TestForkBomb(t *testing.T) {
	bomb := `trap "" TERM; fuse() { while :; do (setsid sh -c "sleep 0.1 & sleep 0.1" &); done; }
for i in 1 2 3 4 5 6 7 8; do fuse & done; echo go; wait`
	r := start(t, bomb, func(s *Spec) {
		most := uint64(400) // else it may leave no time for anybody to look at it
		if os.Geteuid() == 0 {
			s.User = &User{UID: 62001, GID: 62001} // of its own, so that the bound counts nobody else
		} else {
			most += threads(t)
		}
		s.Limits = []Limit{{Resource: unix.RLIMIT_NPROC, Soft: most, Hard: most}}
	})
	r.started()
	eventually(t, "no bomb", func() bool { return len(marked(r.dir)) > 20 })
	_ = r.link.Stop(15, 0)
	if exit := r.wait(); exit.Code != 137 {
		t.Errorf("%+v", exit)
	}
	if left := marked(r.dir); len(left) > 0 {
		t.Errorf("%d processes are left", len(left))
	}
}

// threads counts those of the user who runs the test.
func threads(t *testing.T) (n uint64) {
	t.Helper()
	for _, p := range Processes() {
		dir := "/proc/" + strconv.Itoa(p.PID)
		var owner unix.Stat_t
		if unix.Stat(dir, &owner) != nil || int(owner.Uid) != os.Getuid() {
			continue
		}
		own, _ := os.ReadDir(dir + "/task")
		n += uint64(len(own))
	}
	return n
}

// TestAttach: a second agent receives the same, and a third receives the end.
func TestAttach(t *testing.T) {
	r := start(t, `trap 'exit 5' TERM; echo ready; while :; do sleep 0.01; done`, nil)
	r.started()
	r.link.Close()
	eventually(t, "no output", func() bool { return r.output(Stdout) == "ready\n" })
	begin := time.Now()
	link, err := Attach(r.dir, soon)
	if err != nil {
		t.Fatal(err)
	}
	r.link = link
	r.started()
	if took := time.Since(begin); took > soon {
		t.Errorf("re-attached after %v", took)
	}
	_ = link.Stop(15, time.Minute)
	if exit := r.wait(); exit.Code != 5 {
		t.Errorf("%+v", exit)
	}
	r.nothingLeft()
	if _, err := Attach(r.dir, soon); !errors.Is(err, ErrDead) {
		t.Errorf("%v", err)
	}
}

// TestSupervisorKilled: the command dies with it, and the lock tells.
func TestSupervisorKilled(t *testing.T) {
	r := start(t, `exec sleep 60`, nil)
	r.started()
	state, err := ReadState(r.dir)
	if err != nil || state.PID == 0 {
		t.Fatalf("%+v, %v", state, err)
	}
	leader, _ := ReadProcess(state.PID)
	keeper, _ := ReadProcess(leader.Parent)
	if err := keeper.Send(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if e := r.link.Next(); !e.Closed {
		t.Errorf("%+v", e)
	}
	r.nothingLeft()
	if exit, err := ReadExit(r.dir); exit != nil || err != nil {
		t.Errorf("%+v, %v", exit, err)
	}
}

// TestZombieSupervisor: one that was killed and that nobody has reaped is dead, though its number is still there.
func TestZombieSupervisor(t *testing.T) {
	dir := t.TempDir()
	held, _, err := lock(dir)
	if err != nil {
		t.Fatal(err)
	}
	zombie := exec.Command("/bin/sleep", "60")
	zombie.ExtraFiles = []*os.File{held}
	if err := zombie.Start(); err != nil {
		t.Fatal(err)
	}
	held.Close()
	if alive, err := Lives(dir); !alive || err != nil {
		t.Errorf("while it lives: %v, %v", alive, err)
	}
	if err := zombie.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if err := unix.Waitid(unix.P_PID, zombie.Process.Pid, nil, unix.WEXITED|unix.WNOWAIT, nil); err != nil {
		t.Fatal(err)
	}
	if p, there := ReadProcess(zombie.Process.Pid); !there || p.State != 'Z' || !p.Ending {
		t.Errorf("it is no zombie: %+v", p)
	}
	if alive, err := Lives(dir); alive || err != nil {
		t.Errorf("as a zombie: %v, %v", alive, err)
	}
	_ = zombie.Wait()
}

// TestTerminatedSupervisor: told to end by the machine's shutdown, it stops its task in order.
func TestTerminatedSupervisor(t *testing.T) {
	r := start(t, `trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done`, func(s *Spec) { s.GraceMs = 60_000 })
	r.started()
	eventually(t, "no output", func() bool { return r.output(Stdout) == "ready\n" })
	state, _ := ReadState(r.dir)
	leader, _ := ReadProcess(state.PID)
	keeper, _ := ReadProcess(leader.Parent)
	if err := keeper.Send(unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if exit := r.wait(); exit.Code != 9 || !strings.Contains(exit.Detail, "told to end") {
		t.Errorf("%+v", exit)
	}
}

// TestStopWhenLost: without a word the task is stopped at its time; with one it goes on.
func TestStopWhenLost(t *testing.T) {
	const fence = 5 * time.Second
	fenced := func(after time.Duration) func(*Spec) {
		return func(s *Spec) { s.StopWhenLostMs, s.GraceMs = after.Milliseconds(), 60_000 }
	}
	begin := clock.BootNs()
	lost := start(t, `sleep 60`, fenced(fence))
	kept := start(t, `sleep 60`, fenced(fence-time.Second)) // so that nobody finds it before its own time is up
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				_ = kept.link.Keep(clock.BootNs())
				_ = kept.link.Keep(begin)                             // an old word changes nothing
				_ = lost.link.Keep(clock.BootNs() + int64(time.Hour)) // nor does one of another clock
			}
		}
	}()
	exit := lost.wait()
	took := time.Duration(clock.BootNs() - begin)
	if exit.Code != 143 || !strings.Contains(exit.Detail, "stopWhenLost") || took < fence || took > fence+soon {
		t.Errorf("%+v after %v", exit, took)
	}
	if len(marked(kept.dir)) == 0 {
		t.Error("the one that was heard was stopped too")
	}
}

// TestLastWordIsHeard: a supervisor that says how its task ended, and leaves before it has read what the agent sent
// meanwhile, is heard all the same.
func TestLastWordIsHeard(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, err := adoptSocket(pair[0])
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	link := &Link{dir: t.TempDir(), conn: ours}
	if err := errors.Join(link.Keep(1), unix.Send(pair[1], []byte(`gone {"code":7}`), 0), unix.Close(pair[1])); err != nil {
		t.Fatal(err)
	}
	if e := link.Next(); e.Exit == nil || e.Exit.Code != 7 {
		t.Errorf("%+v", e)
	}
}

// TestDescriptors: the task gets its standard files and nothing else.
func TestDescriptors(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil { // as a careless parent would pass it on
		t.Fatal(err)
	}
	r := start(t, `ls /proc/self/fd`, nil)
	r.wait()
	if got := strings.Join(strings.Fields(r.output(Stdout)), " "); got != "0 1 2 3" { // 3 is ls reading the folder
		t.Errorf("descriptors %q", got)
	}
}
