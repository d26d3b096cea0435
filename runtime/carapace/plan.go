//go:build linux

package carapace

// This file describes the command's process to package fork, and explains its failures to the user.

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/calls"
	"github.com/yi-json/synapse/runtime/carapace/fork"
	"github.com/yi-json/synapse/runtime/fault"
)

// plan builds the description of the command's process.
func (l *launch) plan() (*fork.Plan, error) {
	spec := &l.order.Spec
	p := &fork.Plan{Path: l.path, Workdir: spec.Workdir, Args: spec.Command, Env: l.env, Gains: spec.IDs != nil,
		Bound: uint64(l.kept), Ambient: uint64(l.ambient), Filter: l.filter}
	if !l.order.Rootless {
		p.User = &fork.User{UID: l.who.uid, GID: l.who.gid, Groups: l.who.groups}
	}
	return p, limit(p, spec.Rlimits, l.order.Rootless)
}

// limit adds the rlimits to the plan. The last limit of a name counts. The limit of processes is set after the change
// of the user, who may then only lower it. It is therefore raised before the change.
func limit(p *fork.Plan, limits []Rlimit, rootless bool) error {
	places := map[string]int{}
	for index, limit := range limits {
		// -1 becomes the largest number, which the kernel uses for unlimited.
		set := fork.Limit{Number: rlimitNumbers[limit.Name], Soft: uint64(limit.Soft), Hard: uint64(limit.Hard), Index: index}
		if limit.Name == "nproc" && !rootless {
			late := set
			p.Late = &late
			var now unix.Rlimit
			if err := unix.Getrlimit(set.Number, &now); err != nil {
				return fmt.Errorf("%s: %w", limit.Name, err)
			}
			if set.Hard <= now.Max {
				continue
			}
			set.Soft = set.Hard
		}
		place, again := places[limit.Name]
		if !again {
			place = len(p.Limits)
			places[limit.Name] = place
			p.Limits = append(p.Limits, set)
		}
		p.Limits[place] = set
	}
	return nil
}

var stepNames = map[fork.Step][2]string{ // the step, and the action shown to the caller
	fork.StepClose: {"files", "close the files of the starter"},
	fork.StepDeath: {"die with starter", "request a signal at the starter's death"},
	fork.StepHide:  {"hide init", "make init not dumpable"}, fork.StepProc: {"root", "mount proc"},
	fork.StepLetGo: {"root", "release the host's root"}, fork.StepEnter: {"root", "chroot"},
	fork.StepFork:    {"fork", "create the command's process"},
	fork.StepCgroups: {"cgroup namespace", "unshare"}, fork.StepBound: {"capabilities", "drop capability"},
	fork.StepIDs:        {"user namespace", "enter"},
	fork.StepPrivileges: {"no_new_privs", "set"}, fork.StepFilter: {"seccomp", "set filter"},
	fork.StepAmbient: {"capabilities", "give them to the user"},
	fork.StepGroups:  {"user", "groups"}, fork.StepGroup: {"user", "group"}, fork.StepUser: {"user", "uid"},
	fork.StepStdio: {"stdio", "set up the streams"}, fork.StepTerminal: {"terminal", "make it the session's terminal"},
}

// explain converts the failure of a first process to the error for the caller.
func (o *order) explain(err error) error {
	var failure *fork.Failure
	var death *fork.Death
	switch {
	case errors.As(err, &failure):
		return o.explainStep(failure)
	case errors.As(err, &death):
		return explainDeath(death)
	case errors.Is(err, fork.ErrTooLong):
		return &StartError{CodeNotExecutable, "exec", err.Error(), unix.E2BIG}
	}
	return err
}

func explainDeath(death *fork.Death) *StartError {
	status := death.Status
	switch {
	case status.Signaled():
		return &StartError{codeSignal + int(status.Signal()), "set-up", "init was killed before the command ran", death.Cause}
	case status.ExitStatus() > codeSignal:
		return &StartError{status.ExitStatus(), "set-up", "the command was killed before it ran", death.Cause}
	}
	return &StartError{CodeSetupFailed, "set-up", fmt.Sprintf("init ended with code %d before the command ran",
		status.ExitStatus()), death.Cause}
}

// explainStep returns the same codes as a shell for a failed exec.
func (o *order) explainStep(failure *fork.Failure) *StartError {
	spec, errno := &o.Spec, failure.Errno
	// The job names only the workdir and the command. For other steps, the node is at fault.
	var cause error = fault.OfMachine(errno)
	if failure.Step == fork.StepWorkdir || failure.Step == fork.StepBinary {
		cause = errno
	}
	tell := func(code int, step, format string, values ...any) *StartError {
		return &StartError{code, step, fmt.Sprintf(format, values...), cause}
	}
	switch failure.Step {
	case fork.StepJoin:
		return tell(CodeSetupFailed, "join cgroup "+append(o.Join, o.Leaf)[failure.Index], "%v", errno)
	case fork.StepLimits:
		limit := spec.Rlimits[failure.Index]
		return tell(CodeSetupFailed, "rlimits", "%s %d:%d: %v", limit.Name, limit.Soft, limit.Hard, errno)
	case fork.StepWorkdir:
		return tell(CodeSetupFailed, "workdir", "%s is not a directory that the task's user can enter: %v",
			spec.Workdir, errno)
	case fork.StepBinary:
		return tell(CodeNotExecutable, "exec",
			"%s is the host's binary that runs containers, which tasks cannot execute", spec.Command[0])
	case fork.StepExec:
		return explainExec(errno, spec.Command[0])
	}
	name := stepNames[failure.Step]
	return tell(CodeSetupFailed, name[0], "%s: %v", name[1], errno)
}

func explainExec(err error, command string) *StartError {
	switch {
	case errors.Is(err, unix.ENOENT):
		return &StartError{CodeNotFound, "exec", command + " exists, but its interpreter does not", err}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR),
		errors.Is(err, unix.EPERM), errors.Is(err, unix.ELIBBAD), errors.Is(err, unix.ETXTBSY),
		errors.Is(err, unix.EINVAL), errors.Is(err, unix.ELOOP):
		return &StartError{CodeNotExecutable, "exec", fmt.Sprintf("%s cannot be executed: %v", command, err), err}
	}
	return &StartError{CodeSetupFailed, "exec", fmt.Sprintf("%s: %v", command, err), err}
}

// CallsWith returns the capabilities that decide which system calls a task may make. For memory placement, a task needs
// only the system calls and not the capability.
func CallsWith(spec *Spec) []string {
	names := Capabilities(spec.CapAdd, spec.CapDrop)
	if spec.Seccomp == SeccompNUMA {
		names = append(names, "CAP_SYS_NICE")
	}
	return names
}

// seccompProgram returns the filter of a spec, and the reason if this host has no filter.
func seccompProgram(spec *Spec) (filter []unix.SockFilter, lost string) {
	if spec.Seccomp == seccompOff {
		return nil, ""
	}
	filter, err := calls.Program(CallsWith(spec))
	if err != nil {
		return nil, "seccomp: " + err.Error()
	}
	return filter, ""
}
