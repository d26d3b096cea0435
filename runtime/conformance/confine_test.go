//go:build linux

// This file tests the confinement of plain processes: the host's files, the agent's own files, and other processes. The
// data directory of these nodes is below /tmp, so tasks must not write to /tmp.
package conformance

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/process"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// newConfined returns a node of plain processes whose agent hides its own files.
func newConfined(t *testing.T) *stack {
	t.Helper()
	if _, err := supervisor.Landlock(); err != nil {
		t.Skip(err)
	}
	s := newStack(t, buildCommand(t), process.New(process.Options{Users: allRoot}))
	s.image = process.HostImage
	s.options.Drivers = []launcher.Driver{process.New(process.Options{Users: allRoot, Hide: []string{s.dir}})}
	s.restart(t, func() {})
	Guard(t, s.leavings)
	return s
}

// open returns a folder with a file in it. The file modes permit every user to write to both.
func open(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	for dir := folder; dir != os.TempDir() && dir != "/"; dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	file := filepath.Join(folder, "there")
	if err := os.WriteFile(file, []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(file, 0o666); err != nil {
		t.Fatal(err)
	}
	return folder
}

// attempt is one action that a task's shell tries.
type attempt struct {
	name, script string
	allowed      bool
}

// answersOf runs a task that tries all attempts.
func (s *stack) answersOf(t *testing.T, who string, mounts map[string]string, attempts []attempt) map[string]string {
	t.Helper()
	script := "exec 2>/dev/null\n"
	for _, a := range attempts {
		script += fmt.Sprintf("if ( %s ) >/dev/null; then echo \"%s: allowed\"; else echo \"%s: denied\"; fi\n",
			a.script, a.name, a.name)
	}
	p, err := s.prepare(Task{User: who, Command: []string{"/bin/sh", "-c", script}, Mounts: mounts})
	if err != nil {
		t.Fatal(err)
	}
	p.start()
	<-p.gone
	said := p.said()
	if p.exit.Code != 0 {
		t.Errorf("it ended with %v", p.exit)
	}
	go p.see(nil, nil)
	await(t, p)
	return answers(said)
}

// TestConfined checks that a task of plain processes writes only where its job says, cannot see the agent's files, and
// reaches only its own processes.
func TestConfined(t *testing.T) {
	s := newConfined(t)
	users := []string{""}
	if os.Geteuid() == 0 {
		users = []string{"0", "65534"}
	}
	neighbour := s.begun(t, "echo ready; exec sleep 600 </proc/self/cmdline")
	leader, keeper := neighbour.leader(t)
	outside, given := open(t), open(t)
	home := neighbour.home()
	const ours = true
	attempts := []attempt{
		{"write to the scratch directory", "echo x > file && mkdir folder && mv file folder/ && rm -r folder", ours},
		{"make a temporary file", "rm $(mktemp)", ours},
		{"write to a mount", "echo x > " + given + "/new && rm " + given + "/new", ours},
		{"write to shared memory", "f=$(mktemp -p /dev/shm) && rm $f", ours},
		{"write to /dev/null", "echo x > /dev/null && head -c 1 /dev/urandom", ours},
		{"write to its own output by name", "echo > /dev/stderr", ours},
		{"read the machine", "cat /etc/passwd && ls / /usr /proc /dev && cat /proc/self/status", ours},
		{"end its own processes", "sleep 100 & kill $! && ! wait $!", ours},
		{"end a whole group of its own", "setsid sh -c 'sleep 100 & kill 0'; true", ours},
		{"change a file outside", "echo x >> " + outside + "/there", !ours},
		{"cut a file outside", "truncate -s 0 " + outside + "/there", !ours},
		{"make a file outside", "echo x > " + outside + "/new", !ours},
		{"remove a file outside", "rm -f " + outside + "/there", !ours},
		{"move a file in from outside", "mv " + outside + "/there .", !ours},
		{"write to the machine",
			"echo > /usr/written-by-the-task || echo > /etc/written-by-the-task || echo > /written-by-the-task", !ours},
		{"set the kernel", "v=$(cat /proc/sys/kernel/core_pattern); echo \"$v\" > /proc/sys/kernel/core_pattern", !ours},
		{"make a device node", "mknod node c 1 3 || mknod /dev/shm/node b 254 0", !ours},
		{"read the agent's own", "cat " + home + "/spec.json || cat " + home + "/task.json", !ours},
		{"change the agent's own", "echo > " + home + "/new || rm -f " + home + "/spec.json", !ours},
		{"read its own supervisor's", "cat /proc/$PPID/environ || cat /proc/$PPID/cwd/spec.json || cat /proc/$PPID/root/" +
			home + "/spec.json", !ours},
		{"signal its supervisor", "kill -s 0 $PPID || kill -s 9 $PPID", !ours},
		{"signal a neighbour", fmt.Sprintf("kill -s 9 %d || kill -s 9 -- -%d", leader.PID, leader.PID), !ours},
		{"signal a neighbour's supervisor", fmt.Sprintf("kill -s 9 %d", keeper.PID), !ours},
		{"signal the agent", fmt.Sprintf("kill -s 0 %d", os.Getpid()), !ours},
		{"look into a neighbour", fmt.Sprintf("cat /proc/%d/environ || readlink /proc/%d/fd/1 || head -c 1 /proc/%d/mem",
			leader.PID, leader.PID, leader.PID), !ours},
	}
	for _, who := range users {
		t.Run("user "+who, func(t *testing.T) {
			said := s.answersOf(t, who, map[string]string{given: given}, attempts)
			for _, a := range attempts {
				if want := map[bool]string{true: "allowed", false: "denied"}[a.allowed]; said[a.name] != want {
					t.Errorf("%s: %q, want it %s", a.name, said[a.name], want)
				}
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(outside, "there")); err != nil || string(text) != "text" {
		t.Errorf("what lay outside is %q, %v", text, err)
	}
	if now, there := supervisor.ReadProcess(leader.PID); !there || now.Start != leader.Start {
		t.Error("the neighbour is gone")
	}
}

// TestConfinedNotRoot runs TestConfined with an agent that is not root, so every task runs as the agent's own user.
func TestConfinedNotRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this test becomes another user, which takes root; TestConfined is not root already")
	}
	if _, err := supervisor.Landlock(); err != nil {
		t.Skip(err)
	}
	again := exec.Command("/proc/self/exe", "-test.run=^TestConfined$", "-test.v")
	again.Dir, again.Env = "/", append(os.Environ(), builtBefore+"="+buildCommand(t), "HOME=/")
	again.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 61234, Gid: 61234}}
	text, err := again.CombinedOutput()
	if err != nil || !strings.Contains(string(text), "--- PASS: TestConfined/user_") {
		t.Errorf("%v:\n%s", err, text)
	}
}

// TestConfinedTmp checks that /tmp is shared if it contains no files of the agent. A task then finds the files of
// another task there.
func TestConfinedTmp(t *testing.T) {
	s := newProcesses(t)
	if _, err := supervisor.Landlock(); err != nil {
		t.Skip(err)
	}
	outside := open(t)
	said := s.answersOf(t, "", nil, []attempt{
		{"write to /tmp", "echo x >> " + outside + "/there", true},
		{"write to /var", "f=$(mktemp -p /var) && rm $f", false},
		{"write to /var/tmp", "f=$(mktemp -p /var/tmp) && rm $f", true},
	})
	if want := map[string]string{"write to /tmp": "allowed", "write to /var": "denied",
		"write to /var/tmp": "allowed"}; fmt.Sprint(said) != fmt.Sprint(want) {
		t.Errorf("%v, want %v", said, want)
	}
}

// TestConfinedPrograms checks that the usual steps at the start of training programs work.
func TestConfinedPrograms(t *testing.T) {
	s := newConfined(t)
	python, err := exec.Command("python3", "-c", "import sys; print(sys.executable)").Output()
	if err != nil {
		t.Skip("no python3: ", err)
	}
	program := `import tempfile, multiprocessing as m, socket, ctypes, os, subprocess, threading
tempfile.NamedTemporaryFile().write(b"x")
l = m.Lock(); q = m.SimpleQueue(); p = m.get_context("fork").Process(target=lambda: q.put(os.getpid())); p.start(); q.get(); p.join()
from multiprocessing import shared_memory
a = shared_memory.SharedMemory(create=True, size=4096); a.unlink()
s = socket.create_server(("127.0.0.1", 0)); socket.create_connection(s.getsockname())
u = socket.socket(socket.AF_UNIX); u.bind("\0confined-%d" % os.getpid()); u.listen()
v = socket.socket(socket.AF_UNIX); v.connect("\0confined-%d" % os.getpid())
subprocess.run(["true"], check=True); ctypes.CDLL(None)
if os.geteuid(): open("/proc/self/task/%d/comm" % threading.get_native_id(), "w").write("rank")
pty = os.openpty()
print("well")`
	p, err := s.prepare(Task{
		Command: []string{strings.TrimSpace(string(python)), "-c", program}, Env: []string{"PATH=/usr/bin:/bin"},
	})
	if err != nil {
		t.Fatal(err)
	}
	p.start()
	<-p.gone
	if _, wrong, _, _ := supervisor.ReadLog(p.home(), supervisor.Stderr, 0, 1<<16); p.said() != "well\n" ||
		len(wrong) > 0 {
		t.Errorf("%v\n%s\n%s", p.exit, p.said(), wrong)
	}
	go p.see(nil, nil)
	await(t, p)
}

// TestNotConfined checks that without Landlock a task runs unconfined, the agent reports that, and a job that requires
// its limits is refused.
func TestNotConfined(t *testing.T) {
	s := newProcesses(t)
	why := fmt.Errorf("no Landlock in this test")
	driver := process.New(process.Options{Users: allRoot, Hide: []string{s.dir}, Landlock: func() (int,
		error) {
		return 0, why
	}})
	s.options.Drivers = []launcher.Driver{driver}
	s.restart(t, func() {})
	if lacks := strings.Join(driver.Lacks(), "; "); !strings.Contains(lacks, why.Error()) {
		t.Errorf("lacks %s", lacks)
	}
	outside := open(t)
	said := s.answersOf(t, "", nil, []attempt{
		{"write", "echo x >> " + outside + "/there", true}, {"signal", "kill -s 0 $PPID", true},
	})
	if said["write"] != "allowed" || said["signal"] != "allowed" {
		t.Errorf("%v", said)
	}
	task := &launcher.Task{Spec: &messages.JobSpec{Image: "host", Command: []string{"true"}, LimitsRequired: true}}
	if err := driver.Prepare(t.Context(), task); err == nil || !strings.HasPrefix(err.Error(), "limits: ") {
		t.Errorf("%v", err)
	}
}
