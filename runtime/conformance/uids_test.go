//go:build linux

// This file tests the separate uid of a job that names no user, and its protection from other jobs, with every driver.
package conformance

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/topology"
)

const mine, theirs = 2_000_007, 2_000_008

var withUIDs = account.Rules{UIDs: topology.UIDRange{First: 2_000_000, Last: 2_000_100}}

// of starts a task of a job that names no user, with some folders mounted.
func (s *stack) of(job string, uid uint32, image, script string, folders ...string) *staged {
	return s.begin(job, uid, image, script, func(j *messages.JobSpec) {
		for _, folder := range folders {
			mounting(folder, folder)(j)
		}
	})
}

// begin starts a task of a job that names no user, with a changed spec.
func (s *stack) begin(job string, uid uint32, image, script string, change func(*messages.JobSpec)) *staged {
	counter := s.drawn.Add(1)
	p := &staged{
		of: s, id: &messages.TaskId{Token: &messages.Token{Epoch: 1, Counter: counter}}, job: job, uid: uid,
		spec:  s.job(Task{Rootfs: image, Command: []string{"/bin/sh", "-c", script}, User: "none"}),
		grant: &messages.Grant{Amount: &messages.Resources{}},

		prepared: make(chan struct{}), started: make(chan struct{}), gone: make(chan struct{}),
		done: make(chan struct{}),
	}
	p.spec.User, p.spec.Env = "", []*messages.EnvVar{{Name: "TOKEN", Value: "secret-of-" + job}}
	change(p.spec)
	s.runs.Store(counter, p)
	s.launcher.Tell(&messages.PrepareTask{Id: p.id, Job: job, Spec: p.spec, Uid: uid, Grant: p.grant}, s.pid)
	p.start()
	return p
}

// forgotten makes the launcher keep the files of a task.
func (p *staged) forgotten(t testing.TB) {
	t.Helper()
	<-p.gone
	p.of.launcher.Tell(&messages.ForgetTask{Id: p.id}, nil)
	until(t, "it is not forgotten", func() bool { _, err := os.Stat(p.home()); return err != nil })
	p.of.runs.Delete(p.id.Token.Counter)
}

// pidsOf returns the processes of a user.
func pidsOf(t testing.TB, uid uint32) (pids []string) {
	t.Helper()
	all, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		if info, err := os.Stat(path); err == nil && info.Sys().(*syscall.Stat_t).Uid == uid {
			pids = append(pids, filepath.Base(path))
		}
	}
	return pids
}

// TestJobsApart checks that a job reaches nothing of a concurrent job: environment, memory, files, folders, shared
// resources and signals.
func TestJobsApart(t *testing.T) {
	onMachinesOf(t, withUIDs, func(t *testing.T, s *stack, driver string) {
		const tmp, shm = "/tmp/conformance-uids", "/dev/shm/conformance-uids"
		victim := s.of("theirs", theirs, "host",
			fmt.Sprintf("rm -f %[1]s %[2]s; umask 077; echo secret > %[1]s; echo secret > %[2]s; umask 022; echo secret > "+
				"file; echo ready; sleep 600 & wait", tmp, shm))
		until(t, "the other job does not run", func() bool { return strings.Contains(victim.said(), "ready") })
		pids := pidsOf(t, theirs)
		if len(pids) == 0 {
			t.Fatal("nothing runs as the other job")
		}
		scratch := filepath.Join(s.dir, "scratch", filepath.Base(victim.home()))
		script := "exec 2>/dev/null\n"
		try := func(name, command string) {
			script += fmt.Sprintf("if ( %s ) >/dev/null; then echo %q; fi\n", command, name)
		}
		try("own scratch", "echo x > own && cat own && rm own")
		try("own home", "echo x > $HOME/own && rm $HOME/own")
		try("own name", `test "$USER" = job`+strconv.Itoa(mine)+` && test "$LOGNAME" = "$USER"`)
		for _, pid := range pids {
			try("environment", "cat /proc/"+pid+"/environ")
			try("memory", "head -c 1 /proc/"+pid+"/mem")
			try("files that are open", "cat /proc/"+pid+"/fd/1")
			try("root", "ls /proc/"+pid+"/root/")
			try("working directory", "cat /proc/"+pid+"/cwd/file")
			try("whether it is there, by a signal", "kill -s 0 "+pid)
			try("a signal", "kill -s 9 "+pid+" || kill -s 9 -- -"+pid)
			try("priority", "renice -n 19 -p "+pid)
		}
		try("scratch directory", "ls "+scratch)
		try("a file in it", "cat "+scratch+"/file")
		try("a new file in it", "echo x > "+scratch+"/new")
		for _, path := range []string{tmp, shm} { // in a container, these are other folders
			try("a file at "+path, "cat "+path+" || test -e "+path+" && ( echo x > "+path+" || rm -f "+path+" )")
		}
		mineTask := s.of("mine", mine, "host", script+"exit 0")
		<-mineTask.gone
		if got, want := mineTask.said(), "own scratch\nown home\nown name\n"; got != want {
			t.Errorf("%v: it reached %q, and may %q", mineTask.exit, got, want)
		}
		left := pidsOf(t, theirs)
		if slices.ContainsFunc(pids, func(pid string) bool { return !slices.Contains(left, pid) }) {
			t.Errorf("of the other job's processes %v only %v are left", pids, left)
		}
		mineTask.forgotten(t)
		s.launcher.Tell(&messages.StopTask{Id: victim.id, Signal: int32(syscall.SIGKILL)}, s.pid)
		victim.forgotten(t)
		_, _ = os.Remove(tmp), os.Remove(shm)
	})
}

// TestJobsUID checks that all tasks of a job have the same uid, and that no other job has it while anything of the job
// is left. A job with the same uid is refused while a task of the first exists. After that, it starts, and the kept
// files of the first are removed.
func TestJobsUID(t *testing.T) {
	onMachinesOf(t, withUIDs, func(t *testing.T, s *stack, driver string) {
		first := s.of("first", mine, "host", "echo secret > file; echo ready; sleep 600 & wait")
		until(t, "it does not run", func() bool { return strings.Contains(first.said(), "ready") })
		again := s.of("first", mine, "host", "id -u; id -g")
		second := s.of("second", mine, "host", "id -u")
		outside := s.of("outside", 3_000_000, "host", "id -u")
		for _, p := range []*staged{again, second, outside} {
			<-p.gone
		}
		if want := fmt.Sprintf("%d\n%d\n", mine, mine); again.said() != want {
			t.Errorf("another task of the job: %v %q, not %q", again.exit, again.said(), want)
		}
		if e := second.exit; e.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED ||
			e.Fault != messages.Fault_FAULT_UNKNOWN ||
			!strings.Contains(e.Detail, "tasks of job first on this node have the uid") {
			t.Errorf("another job at the same time: %v", e)
		}
		if e := outside.exit; e.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED ||
			e.Fault != messages.Fault_FAULT_MACHINE || !strings.Contains(e.Detail, "--uids 2000000-2000100") {
			t.Errorf("a uid outside of the node's range: %v", e)
		}
		s.launcher.Tell(&messages.StopTask{Id: first.id, Signal: int32(syscall.SIGKILL)}, s.pid)
		for _, p := range []*staged{first, again, second, outside} {
			p.forgotten(t)
		}
		kept := filepath.Join(s.dir, "kept", filepath.Base(first.home()))
		if text, err := os.ReadFile(filepath.Join(kept, "scratch", "file")); string(text) != "secret\n" {
			t.Errorf("what is kept of the first: %q, %v", text, err)
		}
		s.restart(t, func() {})
		next := s.of("second", mine, "host", "id -u")
		<-next.gone
		if want := strconv.Itoa(mine) + "\n"; next.said() != want {
			t.Errorf("the next job: %v %q", next.exit, next.said())
		}
		if _, err := os.Stat(kept); err == nil {
			t.Error("what is kept of the first is still there")
		}
		next.forgotten(t)
	})
}

// TestJobsName checks that a program that looks up its user finds a name and a writable home, in an image and on the
// host view. A list that is not a regular file or is closed to the user is unchanged.
func TestJobsName(t *testing.T) {
	onMachinesOf(t, withUIDs, func(t *testing.T, s *stack, driver string) {
		if driver == "process" {
			return // plain processes see the host's own lists
		}
		const script = "id; grep -c . /etc/group; (echo x >> /etc/passwd) 2>/dev/null; touch $HOME/x && echo $HOME $USER"
		plain, link, closed, none := able.MakeRootfs(t), able.MakeRootfs(t), able.MakeRootfs(t), able.MakeRootfs(t)
		for _, err := range []error{
			os.Rename(filepath.Join(link, "etc/passwd"), filepath.Join(link, "etc/other")), os.Symlink("other",
				filepath.Join(link, "etc/passwd")),
			os.Chmod(filepath.Join(closed, "etc/passwd"), 0o600), os.Remove(filepath.Join(none, "etc/passwd")),
			os.Remove(filepath.Join(none, "etc/group")),
		} {
			if err != nil {
				t.Fatal(err)
			}
		}
		name := fmt.Sprintf("job%d", mine)
		for image, want := range map[string]string{
			plain: fmt.Sprintf("uid=%[1]d(%[2]s) gid=%[1]d(%[2]s)\n4\n/scratch %[2]s\n", mine, name),
			link:  fmt.Sprintf("uid=%[1]d gid=%[1]d(%[2]s)\n4\n/scratch %[2]s\n", mine, name),
		} {
			p := s.of("mine", mine, image, script)
			<-p.gone
			if p.said() != want {
				t.Errorf("%v %q, not %q", p.exit, p.said(), want)
			}
			p.forgotten(t)
		}
		for _, image := range []string{closed, none} {
			p := s.of("mine", mine, image, "cat /etc/passwd; touch $HOME/x && echo $HOME $USER")
			<-p.gone
			if want := "/scratch " + name + "\n"; p.said() != want {
				t.Errorf("%v %q, not %q", p.exit, p.said(), want)
			}
			p.forgotten(t)
		}
		p := s.of("mine", mine, "host", "id -un; id -gn; wc -l < /etc/passwd; echo $HOME")
		<-p.gone
		machines, err := os.ReadFile("/etc/passwd")
		if want := fmt.Sprintf("%[1]s\n%[1]s\n%[2]d\n/scratch\n", name, strings.Count(string(machines),
			"\n")+1); err != nil || p.said() != want {
			t.Errorf("the host view: %v %q, not %q", p.exit, p.said(), want)
		}
		p.forgotten(t)
	})
}
