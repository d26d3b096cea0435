package supervisor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/tree"
)

// This file runs a task in a container that another program makes. The exit code of that program only shows whether the
// container exists. The kernel reports the end of the task: this process is the subreaper and becomes the parent of the
// container's first process when the program ends.

// Detached holds the settings of a container that another program makes.
type Detached struct {
	// Run is the command that starts the container. It writes the pid of the first process to PIDFile, and ends.
	Run     []string `json:"run"`
	PIDFile string   `json:"pid_file"`
	// Delete is the command that removes the program's record of the container after its end.
	Delete []string `json:"delete"`
	// Record is the directory with the program's complete record of the container; empty: only the program knows
	// where it is. The supervisor removes Record instead of running Delete, because a second execution of the
	// program took longer than the command.
	Record string `json:"record,omitempty"`
	// Complaints is the file with the program's error messages.
	Complaints string `json:"complaints"`
	// Leaves lists the container's cgroups. Cgroups says where they are made.
	Leaves  []string         `json:"leaves"`
	Cgroups carapace.Cgroups `json:"cgroups"`
	// Root is mounted below Base before Run. Only the program and the container see these mounts.
	Root carapace.Spec `json:"root"`
	Base string        `json:"base"`
	// Config is the file of the bundle that describes the container. Workdir is the working directory in that file.
	// The file is rewritten if the real working directory differs.
	Config  string `json:"config"`
	Workdir string `json:"workdir"`
}

const deletePatience = 30 * time.Second

// detached is a task in such a container.
type detached struct {
	k     *keeper
	of    *Detached
	maker int // the pid of the program

	releaseParents func() // called when the program has ended

	mu     sync.Mutex
	leader Process             // the container's first process, once it is known
	seen   map[int]death       // the processes that ended before that
	late   []unix.Signal       // the signals to send after that
	end    *death              // the end of the leader
	over   *syscall.WaitStatus // the end of the program
	guests map[int]bool        // exec sessions; a separate thread waits for each
}

func newDetached(k *keeper) *detached {
	return &detached{k: k, of: k.spec.Detached, seen: map[int]death{}, guests: map[int]bool{}}
}

func (d *detached) start() *Exit {
	// The mounts belong to this thread and the processes that it forks.
	runtime.LockOSThread()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return setUpFailed(fmt.Errorf("become the subreaper: %w", err))
	}
	if err := d.of.compose(); err != nil {
		return neverRun(err)
	}
	null, err := carapace.OwnNull()
	if err != nil {
		return setUpFailed(err)
	}
	defer null.Close()
	theirs, err := d.k.openOutput()
	if err != nil {
		return setUpFailed(err)
	}
	defer closeAll(theirs[:])
	if err := d.of.ownOutput(theirs[:]); err != nil {
		return setUpFailed(err)
	}
	d.releaseParents = carapace.HoldParents(d.of.Cgroups)
	_ = carapace.LimitAllPids(d.of.Cgroups, d.of.Root.Limits.AllPids) // not every host has this limit
	if d.maker, err = d.of.run(d.k.spec.Env, []uintptr{null.Fd(), theirs[0].Fd(), theirs[1].Fd()}); err != nil {
		d.releaseParents()
		closeAll(d.k.out[:])
		_ = carapace.RemoveLeaves(d.of.Leaves)
		return setUpFailed(err)
	}
	d.k.copyLogs()
	go d.reap()
	return nil
}

// ownOutput gives the streams to the container's root. Root with a separate id range may open its streams again, and
// has no right to pipes of other users. The program cannot do this, because it already runs as that root then.
func (d *Detached) ownOutput(streams []*os.File) error {
	if d.Root.IDs == nil {
		return nil
	}
	for _, stream := range streams {
		if err := stream.Chown(int(d.Root.IDs.First), -1); err != nil {
			return fmt.Errorf("output: %w", err)
		}
	}
	return nil
}

// run executes the program. If some addresses must be unreachable, the program runs in a cgroup with a network filter.
func (d *Detached) run(env []string, files []uintptr) (pid int, err error) {
	how := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if len(d.Root.Unreachable) > 0 {
		born, err := carapace.RefuseWays(d.Cgroups, d.Root.ID, d.Root.Unreachable)
		if err != nil {
			return 0, fmt.Errorf("set the network filter of the task: %w", err)
		}
		if born != "" {
			group, err := os.Open(born)
			if err != nil {
				return 0, err
			}
			defer group.Close()
			how.UseCgroupFD, how.CgroupFD = true, int(group.Fd())
		}
	}
	pid, err = syscall.ForkExec(d.Run[0], d.Run, &syscall.ProcAttr{Dir: "/", Env: env, Files: files, Sys: how})
	if err != nil {
		err = fmt.Errorf("execute %s: %w", d.Run[0], err)
	}
	return pid, err
}

// compose mounts the root in a separate mount namespace of the calling thread. The namespace ends with its last
// process.
func (d *Detached) compose() error {
	if err := carapace.OwnMounts(); err != nil {
		return err
	}
	workdir, err := carapace.Compose(d.Root, d.Base)
	if err != nil || workdir == d.Workdir {
		return err
	}
	d.Workdir = workdir
	return fault.OfMachine(setWorkdir(d.Config, workdir))
}

// setWorkdir writes the working directory into the description of a bundle.
func setWorkdir(config, workdir string) error {
	text, err := os.ReadFile(config)
	if err != nil {
		return err
	}
	var all, process map[string]json.RawMessage
	if err := errors.Join(json.Unmarshal(text, &all), json.Unmarshal(all["process"], &process)); err != nil {
		return err
	}
	var wrong [3]error
	process["cwd"], wrong[0] = json.Marshal(workdir)
	all["process"], wrong[1] = json.Marshal(process)
	text, wrong[2] = json.Marshal(all)
	if err := errors.Join(wrong[:]...); err != nil {
		return err
	}
	return os.WriteFile(config, text, 0o600)
}

// reap waits for all processes, as for plain processes, except those that other threads wait for. The leader may end
// before the program, and before it is known as the leader.
func (d *detached) reap() {
	for {
		pid, err := nextEnded()
		if errors.Is(err, syscall.EINTR) {
			continue
		}
		if err != nil {
			close(d.k.allGone)
			return
		}
		if d.isGuest(pid) {
			time.Sleep(time.Millisecond) // gives the waiting thread time to reap it
			continue
		}
		var status syscall.WaitStatus
		var usage syscall.Rusage
		if got, err := syscall.Wait4(pid, &status, unix.WALL|unix.WNOHANG, &usage); err != nil || got != pid ||
			!status.Exited() && !status.Signaled() {
			continue
		}
		d.onDeath(pid, death{status: status, peak: usage.Maxrss << 10})
	}
}

// nextEnded waits for a child that has ended or is traced and stopped. It does not reap the child.
func nextEnded() (pid int, err error) {
	var info unix.Siginfo
	err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
	return int((*[5]int32)(unsafe.Pointer(&info))[4]), err // si_pid, which has no name in the package
}

func (d *detached) onDeath(pid int, end death) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case pid == d.maker:
		d.over = &end.status
		d.releaseParents()
		d.becomeMade()
	case pid == d.leader.PID:
		d.becomeEnded(end)
	case d.over == nil:
		d.seen[pid] = end
	}
}

// becomeMade handles the end of the program, successful or not.
func (d *detached) becomeMade() {
	text, err := os.ReadFile(d.of.PIDFile)
	pid, wrong := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || wrong != nil || d.over.ExitStatus() != 0 {
		d.k.ended <- struct{}{} // the remaining processes are killed
		return
	}
	end, over := d.seen[pid]
	d.leader.PID = pid
	if leader, ok := ReadProcess(pid); ok && !over { // The leader was not reaped, so the pid is still its own.
		d.leader = leader
	}
	if err := d.k.note(pid); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err) // the next agent finds the container by its cgroups
	}
	d.k.began <- pid
	for _, sig := range d.late {
		d.send(sig)
	}
	if over {
		d.becomeEnded(end)
	}
}

func (d *detached) becomeEnded(end death) {
	d.end = &end
	d.k.ended <- struct{}{}
}

// signal sends a signal to the command only. A signal before the start of the command is sent after the start.
func (d *detached) signal(sig unix.Signal) {
	if sig == unix.SIGKILL {
		d.k.kill()
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leader.PID == 0 {
		d.late = append(d.late, sig)
		return
	}
	d.send(sig)
}

// exec runs a process in the container directly, because another execution of the program would cost more.
func (d *detached) exec(what carapace.ExecSpec) (execProcess, error) {
	first, leader, err := d.first()
	if err != nil {
		return nil, err
	}
	defer unix.Close(first)
	guest := 0
	what.Born = func(pid int) {
		guest = pid
		d.host(pid, true)
	}
	made := carapace.Made{Spec: d.of.Root, Pid: leader.PID, PidFD: first, Leaves: d.of.Leaves}
	made.Spec.Workdir = d.of.Workdir
	f, err := made.Exec(what)
	if err != nil {
		d.host(guest, false)
		return nil, err
	}
	go func() {
		<-f.Done()
		d.host(guest, false)
	}()
	return f, nil
}

// first opens the container's first process.
func (d *detached) first() (pidfd int, leader Process, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.leader.PID == 0 || d.end != nil {
		return -1, leader, errNotRunning
	}
	pidfd, err = unix.PidfdOpen(d.leader.PID, 0)
	if now, there := ReadProcess(d.leader.PID); err != nil || !there || now.Start != d.leader.Start {
		unix.Close(pidfd) // The process has ended, and its pid may be reused.
		return -1, leader, errNotRunning
	}
	return pidfd, d.leader, nil
}

// host notes whether a child is an exec session.
func (d *detached) host(pid int, stays bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if delete(d.guests, pid); stays {
		d.guests[pid] = true
	}
}

func (d *detached) isGuest(pid int) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.guests[pid]
}

// send signals the leader without checking its parent. Some programs put a process in between, which may outlive the
// program.
func (d *detached) send(sig unix.Signal) {
	if d.end == nil {
		_ = d.leader.Send(sig)
	}
}

// ending reports whether the leader is exiting or gone.
func (d *detached) ending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, there := ReadProcess(d.leader.PID)
	return d.end != nil || !there || p.Ending || p.Start != d.leader.Start
}

// killRound kills every descendant, including the program if it still runs.
func (d *detached) killRound() {
	self := os.Getpid()
	KillAll(func() []Process { return Descendants(self, Processes()) })
}

// verdict returns the exit of the leader, or the reason why there was none. It first removes the container's remains.
func (d *detached) verdict() *Exit {
	d.mu.Lock()
	defer d.mu.Unlock()
	exit := &Exit{Kind: Exited, Detail: d.k.detail, OOM: carapace.OOMKillsIn(d.of.Leaves) > 0}
	if exit.OOM {
		exit.OOMScope = carapace.OOMScope(d.of.Leaves)
	}
	used := carapace.StatsOf(d.of.Leaves)
	exit.PeakMemoryBytes, exit.CPUNs = used.PeakMemoryBytes, used.CPUNs
	d.remove()
	switch {
	case d.end != nil:
		d.end.fill(exit)
	case !d.k.killedAt.IsZero():
		exit.Code, exit.Signal = 128+int(unix.SIGKILL), int(unix.SIGKILL)
	default:
		d.blame(exit)
	}
	return exit
}

// blame reads the program's error message, which alone shows whether the command cannot be executed. In that case, the
// job is at fault.
func (d *detached) blame(exit *Exit) {
	text, _ := os.ReadFile(d.of.Complaints)
	why := lastComplaint(string(text))
	if exit.Detail == "" {
		exit.Detail = why
	}
	switch {
	case strings.Contains(why, "executable file") && strings.Contains(why, "not found"),
		strings.Contains(why, "exec") && strings.Contains(why, "no such file or directory"):
		exit.Code = codeNotFound
	case strings.Contains(why, "exec") && strings.Contains(why, "permission denied"):
		exit.Code = codeNotExecutable
	default:
		exit.Kind, exit.Code = LaunchFailed, codeSetUp
	}
}

// lastComplaint returns the message of the last line, which is JSON.
func lastComplaint(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	var line struct {
		Message string `json:"msg"`
	}
	if json.Unmarshal([]byte(lines[len(lines)-1]), &line) == nil && line.Message != "" {
		return line.Message
	}
	return lines[len(lines)-1]
}

// remove removes the program's files and the cgroups.
func (d *detached) remove() {
	if d.of.Record == "" {
		d.delete()
	} else if err := tree.Remove(d.of.Record); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err) // The next agent finds it and lets the program delete it.
	}
	if err := carapace.RemoveLeaves(d.of.Leaves); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
	}
}

// delete runs the program's delete command. It must run on the thread that made the container, because it needs the
// thread's mounts.
func (d *detached) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), deletePatience)
	defer cancel()
	c := exec.CommandContext(ctx, d.of.Delete[0], d.of.Delete[1:]...)
	c.Env = d.k.spec.Env
	if text, err := c.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "supervisor: %v: %v: %s\n", d.of.Delete, err, text)
	}
}
