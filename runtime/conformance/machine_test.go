//go:build linux

// This file tests dying agents and supervisors, and hanging tasks, which the cases of one task do not cover. Each test
// runs with every driver of an agent.
package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// onEveryDriver runs a test on a node of each driver, and checks that nothing is left of it.
func onEveryDriver(t *testing.T, test func(*testing.T, *stack)) {
	onDrivers(t, []string{"carapace", "process", "upstream", "runc", "crun"}, test)
}

// onDrivers does the same for some drivers.
func onDrivers(t *testing.T, names []string, test func(*testing.T, *stack)) {
	if testing.Short() {
		t.Skip("-short: builds a binary for each driver")
	}
	if missing := able.Busybox(); missing != "" {
		t.Skip(missing)
	}
	made := map[string]func(testing.TB) *stack{
		"carapace": newContainers, "process": newProcesses, "upstream": newUpstream,
		"runc": func(t testing.TB) *stack { return newOCI(t, "runc") },
		"crun": func(t testing.TB) *stack { return newOCI(t, "crun") },
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			s := made[name](t)
			Guard(t, s.leavings)
			test(t, s)
		})
	}
}

// begun starts a script and waits until it prints "ready".
func (s *stack) begun(t testing.TB, script string) *staged {
	t.Helper()
	p, err := s.prepare(Task{Rootfs: able.MakeRootfs(t), Command: []string{"/bin/sh", "-c", script}})
	if err != nil {
		t.Fatal(err)
	}
	p.start()
	<-p.started // its output may be visible before
	until(t, "it is not ready", func() bool { return strings.HasSuffix(p.said(), "ready\n") })
	go p.see(nil, nil)
	t.Cleanup(func() {
		_ = p.Kill()
		await(t, p)
	})
	return p
}

// said returns the task's output so far.
func (p *staged) said() string {
	_, text, _, _ := supervisor.ReadLog(p.home(), supervisor.Stdout, 0, 1<<16)
	return string(text)
}

func until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !pace.Wait(limit, holds) {
		t.Fatal(what)
	}
}

// leader returns the task's process recorded by its supervisor, and the supervisor. The maker of the container may
// still be between them. The supervisor is the child of this agent's process.
func (p *staged) leader(t testing.TB) (leader, keeper supervisor.Process) {
	t.Helper()
	state, err := supervisor.ReadState(p.home())
	if err != nil || state == nil {
		t.Fatalf("state: %+v, %v", state, err)
	}
	leader, there := supervisor.ReadProcess(state.PID)
	if !there || leader.Start != state.Start {
		t.Fatalf("%+v is not there", state)
	}
	until(t, "no supervisor of the task is found", func() bool {
		for keeper, there = leader, true; there && keeper.Parent > 1 && keeper.Parent != os.Getpid(); {
			keeper, there = supervisor.ReadProcess(keeper.Parent)
		}
		return there && keeper.Parent == os.Getpid() // otherwise the process in between has just ended
	})
	return leader, keeper
}

// TestSupervisorOfAMachineKilled checks that the task is reported as lost, and that nothing of it is left at that
// moment.
func TestSupervisorOfAMachineKilled(t *testing.T) { onEveryDriver(t, supervisorOfAMachineKilled) }

func supervisorOfAMachineKilled(t *testing.T, s *stack) {
	p := s.begun(t, "sleep 1000 </proc/self/cmdline & echo ready; sleep 1000 </proc/self/cmdline; wait")
	leader, keeper := p.leader(t)
	var family []supervisor.Process
	until(t, "its second process is not there", func() bool {
		family = append(supervisor.Descendants(leader.PID, supervisor.Processes()), leader)
		return len(family) >= 2
	})
	if err := keeper.Send(unix.SIGKILL); err != nil {
		t.Fatal(err)
	}
	select {
	case <-p.gone:
	case <-time.After(limit):
		t.Fatal("the end of the task is not reported")
	}
	if p.exit.Kind != messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST {
		t.Errorf("reported as %v", p.exit)
	}
	for _, member := range family {
		if now, there := supervisor.ReadProcess(member.PID); there && now.Start == member.Start && now.State != 'Z' {
			t.Errorf("%+v outlived the word that it was gone", now)
		}
	}
}

// TestAgentOfAMachineKilled checks that the next agent reports a task that ended without an agent, and finds a running
// task unchanged.
func TestAgentOfAMachineKilled(t *testing.T) { onEveryDriver(t, agentOfAMachineKilled) }

func agentOfAMachineKilled(t *testing.T, s *stack) {
	short := s.begun(t, "echo ready; while ! test -e /tmp/end; do sleep 0.01; done; exit 77")
	long := s.begun(t, "trap 'exit 9' TERM; echo ready; while :; do sleep 0.01; done")
	leader, _ := short.leader(t)
	s.restart(t, func() {
		// This path is the task's /tmp, in a container or outside.
		name := "/proc/" + strconv.Itoa(shellOf(t, leader)) + "/root/tmp/end"
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.Remove("/tmp/end") })
		until(t, "its end is not written down", func() bool {
			exit, _ := supervisor.ReadExit(short.home())
			return exit != nil
		})
	})
	for _, p := range []*staged{short, long} {
		s.launcher.Tell(&messages.AdoptTask{Id: p.id}, s.pid)
	}
	if exit := await(t, short); exit.Code != 77 {
		t.Errorf("the one that had ended: %+v", exit)
	}
	s.launcher.Tell(&messages.StopTask{Id: long.id, GraceMs: 60_000}, s.pid)
	if exit := await(t, long); exit.Code != 9 {
		t.Errorf("the one that went on: %+v", exit)
	}
}

// shellOf returns the task's shell: the leader, or its init's child.
func shellOf(t testing.TB, leader supervisor.Process) int {
	for _, p := range append([]supervisor.Process{leader}, supervisor.Descendants(leader.PID, supervisor.Processes())...) {
		line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", p.PID))
		if strings.Contains(string(line), "sh\x00-c\x00") {
			return p.PID
		}
	}
	t.Fatal("the task has no shell")
	return 0
}

// TestStartOfAMachineTwice checks that a task is started once, even if the command is repeated.
func TestStartOfAMachineTwice(t *testing.T) {
	onEveryDriver(t, func(t *testing.T, s *stack) {
		p, err := s.prepare(Task{Rootfs: able.MakeRootfs(t), Command: []string{"/bin/sh", "-c", "echo once; sleep 0.1"}})
		if err != nil {
			t.Fatal(err)
		}
		p.start()
		p.start()
		<-p.started
		p.start()
		<-p.gone
		if text := strings.TrimPrefix(p.said(), string(s.noise)); text != "once\n" {
			t.Errorf("it said %q", text)
		}
		go p.see(nil, nil)
		await(t, p)
	})
}

// TestStuckOnAMachine uses a frozen process for a task that hangs in the kernel. Its end is reported only when it has
// ended.
func TestStuckOnAMachine(t *testing.T) {
	able.Need(t, able.Freezer)
	onEveryDriver(t, func(t *testing.T, s *stack) {
		p := s.begun(t, "echo ready; while :; do sleep 0.01; done")
		leader, _ := p.leader(t)
		thaw := freeze(t, strconv.Itoa(shellOf(t, leader)))
		t.Cleanup(func() {
			thaw()
			_ = p.Kill()
			await(t, p)
		})
		_ = p.Kill()
		select {
		case <-p.gone:
			t.Errorf("reported as gone, although a process of it is left: %v", p.exit)
		case <-time.After(500 * time.Millisecond): // many rounds of killing
		}
		thaw()
		if exit := await(t, p); exit.Code != 137 {
			t.Errorf("%+v", exit)
		}
	})
}

// freeze stops a process and its children until it is thawed or the test ends. The kernel needs a moment for this, and
// a process that is killed meanwhile dies.
func freeze(t testing.TB, pid string) (thaw func()) {
	t.Helper()
	cell := filepath.Join("/sys/fs/cgroup/freezer", NewID())
	state := filepath.Join(cell, "freezer.state")
	if err := os.Mkdir(cell, 0o755); err != nil {
		t.Fatal(err)
	}
	thaw = func() { _ = os.WriteFile(state, []byte("THAWED"), 0) }
	t.Cleanup(func() {
		thaw()
		until(t, "the freezer's group stays", func() bool { return os.Remove(cell) == nil })
	})
	if err := os.WriteFile(filepath.Join(cell, "cgroup.procs"), []byte(pid), 0); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(state, []byte("FROZEN"), 0); err != nil {
		t.Fatal(err)
	}
	until(t, "the process does not freeze", func() bool {
		text, _ := os.ReadFile(state)
		return strings.TrimSpace(string(text)) == "FROZEN"
	})
	return thaw
}
