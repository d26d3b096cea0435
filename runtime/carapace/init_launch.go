//go:build linux

// Launching the command. One thread of init does it and ends with it: groups, rights and filter are a thread's own in
// Linux, so what that thread gives up, the command is born without, and init keeps what it needs to look after it.
package carapace

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// launch is what the command is to be born with.
type launch struct {
	order      *order
	unenforced []string
	signals    inbox
	early      []syscall.Signal // what came before there was a command to have it

	join []*os.File // files of cgroup v1 that a thread writes itself into
	pids *os.File   // gets the true limit of processes
	back *os.File   // leads the launching thread out again; nil where it has to end for that
	leaf *os.File   // the group of cgroup v2 to be born in

	who     account
	path    string
	env     []string
	kept    map[int]bool
	ambient []uintptr
	filter  bool
}

// openCgroups opens what lies outside of the container's root, before that closes behind us.
func (l *launch) openCgroups() error {
	for _, path := range l.order.Join {
		file, err := os.OpenFile(path, os.O_WRONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		l.join = append(l.join, file)
	}
	var err error
	if l.order.PidsFile != "" {
		if l.pids, err = os.OpenFile(l.order.PidsFile, os.O_WRONLY|unix.O_CLOEXEC, 0); err != nil {
			return err
		}
		l.back, _ = os.OpenFile(l.order.Back, os.O_WRONLY|unix.O_CLOEXEC, 0)
	}
	if l.order.Leaf != "" {
		l.leaf, err = os.Open(l.order.Leaf)
	}
	return err
}

// prepare finds out who runs what, as the container sees it.
func (l *launch) prepare() error {
	spec := &l.order.Spec
	who, err := lookUp(spec.User, spec.Groups)
	if err != nil {
		return fail("user", err)
	}
	if l.order.Rootless {
		if who.uid != 0 || who.gid != 0 {
			l.unenforced = append(l.unenforced, "user: without root the task has the one user that started it")
		}
		l.unenforced = append(l.unenforced, "groups: without root the groups of who started it stay")
		who.uid, who.gid, who.groups = 0, 0, nil
	}
	l.who = who
	if err := l.ownPipes(); err != nil {
		return fail("stdio", err)
	}
	if _, err := os.Stat(spec.Workdir); errors.Is(err, fs.ErrNotExist) {
		if err := os.MkdirAll(spec.Workdir, 0o755); err != nil {
			return fail("workdir", fmt.Errorf("%s is missing and cannot be made: %w", spec.Workdir, err))
		}
		if err := os.Chown(spec.Workdir, who.uid, who.gid); err != nil {
			return fail("workdir", err)
		}
	}
	l.env = environment(spec.Env, who.home)
	l.kept, l.ambient = capabilities(spec.CapAdd, spec.CapDrop)
	if who.uid == 0 {
		l.ambient = nil // Root gets them by being root.
	}
	l.filter = spec.Seccomp != seccompOff
	if _, known := architectures[runtime.GOARCH]; l.filter && !known {
		l.filter = false
		l.unenforced = append(l.unenforced, "seccomp: no filter for "+runtime.GOARCH)
	}
	path, failure := findProgram(spec.Command[0], spec.Workdir, l.env)
	if failure != nil {
		return failure
	}
	l.path = path
	return nil
}

// ownPipes gives the pipes we were handed to the task's user: /dev/stdout is opened anew by some programs, as that user.
func (l *launch) ownPipes() error {
	for fd := range socketFd {
		var stat unix.Stat_t
		if err := unix.Fstat(fd, &stat); err != nil || stat.Mode&unix.S_IFMT != unix.S_IFIFO || int(stat.Uid) == l.who.uid {
			continue
		}
		if err := unix.Fchown(fd, l.who.uid, -1); err != nil && !l.order.Rootless {
			return err
		}
	}
	return nil
}

// run launches the command and answers its pid.
func (l *launch) run() (int, *StartError) {
	defer func() {
		for _, file := range append(l.join, l.pids, l.back, l.leaf) {
			if file != nil {
				file.Close()
			}
		}
	}()
	for _, file := range l.join {
		if _, err := file.WriteString("0"); err != nil {
			return 0, fail("join cgroup "+file.Name(), err)
		}
	}
	if err := boundCapabilities(l.kept); err != nil {
		return 0, fail("capabilities", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return 0, fail("no_new_privs", err)
	}
	if l.filter {
		if err := installSeccomp(); err != nil {
			return 0, fail("seccomp", err)
		}
	}
	restore, err := limitResources(l.order.Spec.Rlimits, l.order.Spec.NoInit)
	if err != nil {
		restore()
		return 0, fail("rlimits", err)
	}
	// The command is born with the mask of this thread, so that opens its ears, but for the courier: one that came before the
	// fork closes them again would find no handler, and end init. The command never sees a courier, blocked or not.
	l.early = l.signals.taken()
	mask := onlyCourier
	if l.order.Spec.NoInit {
		mask = noSignals
	}
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &mask, nil); err != nil {
		return 0, fail("signals", err)
	}
	if l.order.Spec.NoInit {
		return 0, l.become()
	}
	pid, err := syscall.ForkExec(l.path, l.order.Spec.Command, &syscall.ProcAttr{
		Dir: l.order.Spec.Workdir, Env: l.env, Files: []uintptr{0, 1, 2}, Sys: l.attributes(),
	})
	restore()
	if err != nil {
		return 0, l.explain(err)
	}
	if err := limitCommand(pid, l.order.Spec.Rlimits); err != nil {
		_ = unix.Kill(pid, unix.SIGKILL)
		return 0, fail("rlimits", err)
	}
	if l.pids != nil {
		// While this thread is in the group the command cannot have more than its limit, and after that neither. In
		// between, for two writes, it is one less.
		if _, err := l.pids.WriteString(strconv.FormatInt(l.order.Spec.Limits.Pids, 10)); err != nil {
			_ = unix.Kill(pid, unix.SIGKILL)
			return 0, fail("pids limit", err)
		}
		if l.back != nil {
			_, _ = l.back.WriteString("0")
		}
	}
	return pid, nil
}

func (l *launch) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setsid: true, AmbientCaps: l.ambient}
	if !l.order.Rootless {
		attributes.Credential = &syscall.Credential{Uid: uint32(l.who.uid), Gid: uint32(l.who.gid), Groups: l.who.groups}
	}
	if len(l.join) > 0 || l.leaf != nil {
		// In the child, which is in its group by then: that group becomes the root of what it sees.
		attributes.Unshareflags = syscall.CLONE_NEWCGROUP
	}
	if l.leaf != nil {
		attributes.UseCgroupFD, attributes.CgroupFD = true, int(l.leaf.Fd())
	}
	return attributes
}

// become makes this process the command. What a fork would do in the child is done here, on this thread, which is the one
// that is left after the exec.
func (l *launch) become() *StartError {
	fork := l.attributes()
	if fork.Unshareflags != 0 {
		if err := unix.Unshare(int(fork.Unshareflags)); err != nil {
			return fail("cgroup namespace", err)
		}
	}
	if len(l.ambient) > 0 {
		return fail("capabilities", errors.New("a user other than root can only be given some with an init"))
	}
	if l.pids != nil { // This thread is all that the group has, and becomes the command.
		if _, err := l.pids.WriteString(strconv.FormatInt(l.order.Spec.Limits.Pids, 10)); err != nil {
			return fail("pids limit", err)
		}
	}
	if who := fork.Credential; who != nil {
		// The raw calls change one thread; Go's own would change all of them, and init's are about to end anyway.
		if err := becomeUser(who); err != nil {
			return fail("user", err)
		}
	}
	if err := unix.Chdir(l.order.Spec.Workdir); err != nil {
		return fail("workdir", err)
	}
	// The starter's thread lives as long as the container. A change of user clears this, so it comes after.
	if err := unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(unix.SIGKILL), 0, 0, 0); err != nil {
		return fail("die with starter", err)
	}
	return l.explain(syscall.Exec(l.path, l.order.Spec.Command, l.env))
}

func becomeUser(who *syscall.Credential) error {
	groups := who.Groups
	if len(groups) == 0 {
		groups = []uint32{who.Gid}
	}
	if err := setGroups(groups); err != nil {
		return fmt.Errorf("groups: %w", err)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESGID, uintptr(who.Gid), uintptr(who.Gid), uintptr(who.Gid)); errno != 0 {
		return fmt.Errorf("group %d: %w", who.Gid, errno)
	}
	if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uintptr(who.Uid), uintptr(who.Uid), uintptr(who.Uid)); errno != 0 {
		return fmt.Errorf("user %d: %w", who.Uid, errno)
	}
	return nil
}

// explain turns what exec said into what a shell would say.
func (l *launch) explain(err error) *StartError {
	workdir := l.order.Spec.Workdir
	if stat, failed := os.Stat(workdir); failed != nil || !stat.IsDir() {
		return &StartError{CodeSetupFailed, "workdir", workdir + " is no directory", err}
	}
	command := l.order.Spec.Command[0]
	switch {
	case errors.Is(err, unix.ENOENT):
		return &StartError{CodeNotFound, "exec", command + " is there, but not the interpreter that it names", err}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.ELIBBAD), errors.Is(err, unix.ETXTBSY), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ELOOP):
		return &StartError{CodeNotExecutable, "exec", fmt.Sprintf("%s cannot be executed: %v", command, err), err}
	}
	return &StartError{CodeSetupFailed, "exec", fmt.Sprintf("%s: %v", command, err), err}
}
