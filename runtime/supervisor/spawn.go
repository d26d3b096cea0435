package supervisor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/fault"
)

// This file executes the command and explains failures.

// Exit codes of shells for a command that could not be run.
const (
	codeSetUp         = 125
	codeNotExecutable = 126
	codeNotFound      = 127
)

// spawn executes the command as the leader of a new session. The command dies with the calling thread, which therefore
// must not end before the command. The thread keeps the command's confinement.
func spawn(k *keeper) (int, *Exit) {
	spec := &k.spec
	path, failed := lookUp(spec)
	if failed != nil {
		return 0, failed
	}
	if err := setLimits(spec.Limits); err != nil {
		return 0, setUpFailed(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return 0, setUpFailed(err)
	}
	defer null.Close()
	theirs, err := k.openOutput()
	if err != nil {
		return 0, setUpFailed(err)
	}
	defer closeAll(theirs[:])
	attr := &syscall.ProcAttr{
		Dir: spec.Dir, Env: spec.Env, Sys: &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL},
	}
	attr.Files = []uintptr{null.Fd(), theirs[0].Fd(), theirs[1].Fd()}
	if u := spec.User; u != nil {
		attr.Sys.Credential = &syscall.Credential{Uid: u.UID, Gid: u.GID, Groups: u.Groups}
	}
	if err := spec.Confine.confineThread(spec.Cgroup != ""); err != nil {
		closeAll(k.out[:])
		return 0, neverRun(err) // the rules name the job's paths, so the job may be at fault
	}
	pid, err := forkInto(spec, path, attr)
	if err != nil {
		closeAll(k.out[:])
		return 0, spawnFailed(spec, path, err)
	}
	return pid, nil
}

// forkInto starts the command in its cgroup. If the kernel does not support that, the command starts outside, because
// the exit confirmation does not depend on the cgroup.
func forkInto(spec *Spec, path string, attr *syscall.ProcAttr) (int, error) {
	if spec.Cgroup != "" {
		fd, err := unix.Open(spec.Cgroup, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err == nil {
			defer unix.Close(fd)
			attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, fd
			pid, err := syscall.ForkExec(path, spec.Args, attr)
			if !errors.Is(err, unix.ENOSYS) && !errors.Is(err, unix.EBUSY) && !errors.Is(err, unix.EOPNOTSUPP) {
				return pid, err
			}
			attr.Sys.UseCgroupFD = false
		}
	}
	return syscall.ForkExec(path, spec.Args, attr)
}

// lookUp searches the command as a shell would, in PATH of the task's environment.
func lookUp(spec *Spec) (string, *Exit) {
	if spec.Path == "" {
		return "", ended(codeNotFound, "command: is empty; add a command to the job")
	}
	if strings.Contains(spec.Path, "/") {
		return spec.Path, nil
	}
	forbidden := false
	for _, dir := range filepath.SplitList(lastValue(spec.Env, "PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		candidate := filepath.Join(dir, spec.Path)
		info, err := os.Stat(candidate)
		switch {
		case err != nil || info.IsDir():
		case info.Mode()&0o111 != 0:
			return candidate, nil
		default:
			forbidden = true
		}
	}
	if forbidden {
		return "", ended(codeNotExecutable, fmt.Sprintf("command: %s is not executable; run chmod +x on it", spec.Path))
	}
	return "", ended(codeNotFound, fmt.Sprintf("command: %s was not found in PATH=%s",
		spec.Path, lastValue(spec.Env, "PATH")))
}

func lastValue(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}

// setLimits sets the limits of the supervisor, which the command inherits. Some root users may not raise a limit. The
// limit is then raised as far as permitted.
func setLimits(limits []Limit) error {
	for _, l := range limits {
		err := unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: l.Soft, Max: l.Hard})
		var now unix.Rlimit
		if errors.Is(err, unix.EPERM) && unix.Getrlimit(l.Resource, &now) == nil && l.Hard > now.Max {
			err = unix.Setrlimit(l.Resource, &unix.Rlimit{Cur: min(l.Soft, now.Max), Max: now.Max})
		}
		if err != nil {
			return fmt.Errorf("set the resource limit %d: %w", l.Resource, err)
		}
	}
	return nil
}

// setUpFailed returns the exit of a task that did not run because the supervisor failed.
func setUpFailed(err error) *Exit { return neverRun(fault.OfMachine(err)) }

// neverRun returns the exit of a task that did not run, with the fault of the error. A full disk blames neither the job
// nor the node.
func neverRun(err error) *Exit {
	if NoRoom(".", err) {
		return &Exit{Kind: NeverStarted, Detail: err.Error()}
	}
	return &Exit{Kind: LaunchFailed, Code: codeSetUp, Detail: err.Error(), Fault: fault.Of(err)}
}

func ended(code int, detail string) *Exit { return &Exit{Kind: Exited, Code: code, Detail: detail} }

// spawnFailed separates the user's mistakes from failures of the node. Only the latter may count against the node.
func spawnFailed(spec *Spec, path string, err error) *Exit {
	if info, wrong := os.Stat(spec.Dir); spec.Dir != "" && (wrong != nil || !info.IsDir()) {
		return ended(codeNotExecutable, fmt.Sprintf("workdir: %s is not a directory on this node", spec.Dir))
	}
	switch {
	case errors.Is(err, unix.ENOENT):
		if _, wrong := os.Stat(path); wrong == nil {
			return ended(codeNotFound, fmt.Sprintf("command: the interpreter of %s was not found", path))
		}
		return ended(codeNotFound, fmt.Sprintf("command: %s was not found", path))
	case errors.Is(err, unix.ENOEXEC):
		return ended(codeNotExecutable,
			fmt.Sprintf("command: %s is not a program for this node's platform and names no interpreter", path))
	case errors.Is(err, unix.EACCES):
		return ended(codeNotExecutable, fmt.Sprintf("command: %s in workdir %s: %v for this user", path, spec.Dir, err))
	case errors.Is(err, unix.E2BIG), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.EISDIR),
		errors.Is(err, unix.ELOOP), errors.Is(err, unix.ENAMETOOLONG), errors.Is(err,
			unix.ETXTBSY), errors.Is(err, unix.EINVAL):
		return ended(codeNotExecutable, fmt.Sprintf("command: %s: %v", path, err))
	}
	return neverRun(fmt.Errorf("execute %s: %w", path, err))
}
