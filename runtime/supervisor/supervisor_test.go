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

// This file tests one supervisor with real processes. Each test ends all that it starts.

var soon = 30 * time.Second

// rig holds one task's directory and acts as its agent.
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

// wait returns how the task ended. It checks that the link and the record agree.
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
				r.t.Fatalf("reported %+v, wrote %+v, %v", e.Exit, record, err)
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

// nothingLeft checks that no supervisor and no process with the task's mark is left.
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

// TestExitCodes checks that the exit code and the signal are exactly those of the command.
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
		{name: "not found", change: func(s *Spec) { s.Path = "no-such-program" }, code: 127, detail: "was not found in PATH"},
		{name: "no such path", change: func(s *Spec) { s.Path = "/no/such" }, code: 127,
			detail: "command: /no/such was not found"},
		{name: "no interpreter", change: func(s *Spec) { s.Path = noInterpreter }, code: 127, detail: "the interpreter of"},
		{name: "not executable", change: func(s *Spec) { s.Path = "/etc/passwd" }, code: 126, detail: "permission denied"},
		{name: "no program", change: func(s *Spec) { s.Path = noProgram }, code: 126, detail: "not a program"},
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

// TestStop checks that the signal comes first, and the kill comes after the grace and not before.
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

// TestStopShortened checks that a later stop can shorten the grace.
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

// TestNothingSurvives checks that all remaining processes of a task end with it, and that the end is reported only
// after that.
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

// TestForkBomb checks that processes that fork, leave their session and lose their parents faster than they can be
// killed one by one still end.
func TestForkBomb(t *testing.T) {
	bomb := `trap "" TERM; fuse() { while :; do (setsid sh -c "sleep 0.1 & sleep 0.1" &); done; }
for i in 1 2 3 4 5 6 7 8; do fuse & done; echo go; wait`
	r := start(t, bomb, func(s *Spec) {
		most := uint64(400) // otherwise it may leave no processor time for others
		if os.Geteuid() == 0 {
			s.User = &User{UID: 62001, GID: 62001} // a separate user, so that the limit counts no other processes
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

// threads returns the number of threads of the user who runs the test.
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

// TestAttach checks that a second agent receives the same state, and that a third one receives the end.
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

// TestSupervisorKilled checks that the command dies with its supervisor, and that the lock shows this.
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

// TestZombieSupervisor checks that a killed supervisor that was not reaped counts as dead, although its pid still
// exists.
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

// TestTerminatedSupervisor checks that a supervisor that gets SIGTERM, as at the host's shutdown, stops its task in
// order.
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
	if exit := r.wait(); exit.Code != 9 || !strings.Contains(exit.Detail, "supervisor received") {
		t.Errorf("%+v", exit)
	}
}

// TestStopWhenLost checks that a task is stopped in time if no message arrives, and continues if one does.
func TestStopWhenLost(t *testing.T) {
	const fence = 5 * time.Second
	fenced := func(after time.Duration) func(*Spec) {
		return func(s *Spec) { s.StopWhenLostMs, s.GraceMs = after.Milliseconds(), 60_000 }
	}
	begin := clock.BootNs()
	lost := start(t, `sleep 60`, fenced(fence))
	kept := start(t, `sleep 60`, fenced(fence-time.Second)) // its time ends first, so the check comes after it
	stop := make(chan struct{})
	defer close(stop)
	go func() {
		for {
			select {
			case <-stop:
				return
			case <-time.After(200 * time.Millisecond):
				_ = kept.link.Keep(clock.BootNs())
				_ = kept.link.Keep(begin)                             // an earlier time has no effect
				_ = lost.link.Keep(clock.BootNs() + int64(time.Hour)) // nor has a time of another clock
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

// TestLastWordIsHeard checks that the final report of a supervisor arrives even if the supervisor ends before it has
// read the agent's packets.
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

// TestDescriptors checks that the task gets only its standard streams.
func TestDescriptors(t *testing.T) {
	file, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETFD, 0); err != nil { // like a careless parent that passes it on
		t.Fatal(err)
	}
	r := start(t, `ls /proc/self/fd`, nil)
	r.wait()
	if got := strings.Join(strings.Fields(r.output(Stdout)), " "); got != "0 1 2 3" { // 3 is ls reading the folder
		t.Errorf("descriptors %q", got)
	}
}
