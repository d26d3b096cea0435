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

// This file owns a task that another program makes a container of, and leaves to us.
// That program's own exit code tells only whether there is a container: how the task
// ended is told by the kernel, because we are the subreaper, and so become the parent
// of the container's first process when the program has gone.

// Detached is how a container is made by another program.
type Detached struct {
	// Run starts it, writes the number of its first process to PIDFile, and ends.
	Run     []string `json:"run"`
	PIDFile string   `json:"pid_file"`
	// Delete has the program forget what Run made, once all is gone.
	Delete []string `json:"delete"`
	// Record is the directory in which the program keeps all that it knows of the container; empty: nobody but the program
	// can tell. It is removed in place of Delete, because executing the program a second time took longer than the
	// command.
	Record string `json:"record,omitempty"`
	// Complaints is where the program says why it could not.
	Complaints string `json:"complaints"`
	// Leaves are the container's cgroups, and Cgroups is where they are made.
	Leaves  []string         `json:"leaves"`
	Cgroups carapace.Cgroups `json:"cgroups"`
	// Root is what is mounted below Base before Run, and seen only by the program and the container.
	Root carapace.Spec `json:"root"`
	Base string        `json:"base"`
	// Config is the bundle's description of the container, and Workdir what it says of the working directory. It is
	// written again where that proves to be another one.
	Config  string `json:"config"`
	Workdir string `json:"workdir"`
}

const deletePatience = 30 * time.Second

// detached is such a task.
type detached struct {
	k     *keeper
	of    *Detached
	maker int // the program

	releaseParents func() // when the program has ended

	mu     sync.Mutex
	leader Process             // the container's first process, once it is known
	seen   map[int]death       // what ended before that
	late   []unix.Signal       // and what was to be sent
	end    *death              // the leader's
	over   *syscall.WaitStatus // the program's
	guests map[int]bool        // exec sessions, each with a thread that waits for it
}

func newDetached(k *keeper) *detached {
	return &detached{k: k, of: k.spec.Detached, seen: map[int]death{}, guests: map[int]bool{}}
}

func (d *detached) start() *Exit {
	// The mounts belong to this thread, and to whatever it forks.
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
	_ = carapace.LimitAllPids(d.of.Cgroups, d.of.Root.Limits.AllPids) // a machine that cannot has no such limit
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

// ownOutput gives the streams to root of a container of its own, which may open them again and has no right to pipes of
// other users. The program cannot: it is that root when it would.
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

// run executes the program, in a group with a filter where what the container connects to is to be refused.
func (d *Detached) run(env []string, files []uintptr) (pid int, err error) {
	how := &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
	if len(d.Root.Unreachable) > 0 {
		born, err := carapace.RefuseWays(d.Cgroups, d.Root.ID, d.Root.Unreachable)
		if err != nil {
			return 0, fmt.Errorf("refuse the task its ways: %w", err)
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

// compose mounts the root in a mount namespace of the calling thread's own: it goes when the last one in there goes.
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

// setWorkdir writes the working directory into a bundle's description.
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

// reap waits for everything, as it does for plain processes, but for what others wait for. The leader may end
// before the program has, and before anybody knows that it is the leader.
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
			time.Sleep(time.Millisecond) // which is longer than the thread takes that waits for it
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

// nextEnded waits for a child that has ended, or has stopped as one does that is traced. It does not reap it.
func nextEnded() (pid int, err error) {
	var info unix.Siginfo
	err = unix.Waitid(unix.P_ALL, 0, &info, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
	return int((*[5]int32)(unsafe.Pointer(&info))[4]), err // si_pid, which has no name there
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

// becomeMade: the program has ended, well or not.
func (d *detached) becomeMade() {
	text, err := os.ReadFile(d.of.PIDFile)
	pid, wrong := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || wrong != nil || d.over.ExitStatus() != 0 {
		d.k.ended <- struct{}{} // what is left of the attempt is killed
		return
	}
	end, over := d.seen[pid]
	d.leader.PID = pid
	if leader, ok := ReadProcess(pid); ok && !over { // Nobody has reaped it, so the pid is still its own.
		d.leader = leader
	}
	if err := d.k.note(pid); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err) // the next agent finds it by its cgroups
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

// signal reaches the command alone. One that comes before it is there waits for it.
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

// exec runs a process in the container. The program is not asked: it would have to be executed for that once more.
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
		unix.Close(pidfd) // It has ended, and its number may be another's.
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

// send does not ask whose child the leader is: some programs have one of theirs in between, which may outlive them.
func (d *detached) send(sig unix.Signal) {
	if d.end == nil {
		_ = d.leader.Send(sig)
	}
}

// ending reports whether the leader is on its way out, or gone.
func (d *detached) ending() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	p, there := ReadProcess(d.leader.PID)
	return d.end != nil || !there || p.Ending || p.Start != d.leader.Start
}

// killRound kills every descendant, the program among them if it is still at it.
func (d *detached) killRound() {
	self := os.Getpid()
	KillAll(func() []Process { return Descendants(self, Processes()) })
}

// verdict is the leader's end, or why there was none. The container's leavings go first.
func (d *detached) verdict() *Exit {
	d.mu.Lock()
	defer d.mu.Unlock()
	exit := &Exit{Kind: Exited, Detail: d.k.detail, OOM: carapace.OOMKillsIn(d.of.Leaves) > 0}
	exit.PeakMemoryBytes = carapace.StatsOf(d.of.Leaves).PeakMemoryBytes
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

// blame reads the program's complaint: whether the command cannot be run, which is the
// job's fault, stands nowhere else.
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

// lastComplaint is the message of the last line, which is JSON.
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

// remove clears away what the program made.
func (d *detached) remove() {
	if d.of.Record == "" {
		d.delete()
	} else if err := tree.Remove(d.of.Record); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err) // The agent finds it, and has the program delete it.
	}
	if err := carapace.RemoveLeaves(d.of.Leaves); err != nil {
		fmt.Fprintln(os.Stderr, "supervisor:", err)
	}
}

// delete has the program remove it. It is called on the thread that made it, whose mounts it needs.
func (d *detached) delete() {
	ctx, cancel := context.WithTimeout(context.Background(), deletePatience)
	defer cancel()
	c := exec.CommandContext(ctx, d.of.Delete[0], d.of.Delete[1:]...)
	c.Env = d.k.spec.Env
	if text, err := c.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "supervisor: %v: %v: %s\n", d.of.Delete, err, text)
	}
}
