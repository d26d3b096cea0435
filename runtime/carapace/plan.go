//go:build linux

// What a fork is told to become: numbers and byte strings, put together by the starter (which may allocate and fail) at the
// addresses where the fork has its nest. And what its word of a failure means to a person.
package carapace

import (
	"errors"
	"fmt"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/calls"
	"github.com/yi-json/synapse/runtime/fault"
)

// plan is a command. Addresses are those of init's nest; what they point at follows the plan as its data.
type plan struct {
	length uintptr // of the data

	path, argv, env, workdir uintptr

	changesUser, ownCgroups bool
	gains                   bool // rights by set-user-id programs, which are its image's
	uid, gid                uintptr
	groups, groupsN         uintptr

	bound, ambient uint64 // bits of capabilities: to be kept in the bounding set, and to be handed to a user
	filter         struct {
		length uint16
		at     uintptr
	}
	limits   [maxLimits]selfLimit
	limitsN  uintptr
	late     selfLimit
	lateN    uintptr
	untraced uintptr // why, as an errno
}

const maxLimits = 16 // as many as have a name

// selfLimit is a resource limit; soft and hard are a struct rlimit64.
type selfLimit struct {
	number     uintptr
	soft, hard uint64
	index      uintptr // in the spec
}

// planner writes a plan's data, for where they will lie.
type planner struct {
	plan plan
	base uintptr
	data []byte
}

func (p *planner) bytes(content []byte) uintptr {
	for len(p.data)%8 != 0 {
		p.data = append(p.data, 0)
	}
	at := p.base + uintptr(len(p.data))
	p.data = append(p.data, content...)
	return at
}

func (p *planner) text(text string) uintptr { return p.bytes(append([]byte(text), 0)) }

func (p *planner) texts(texts []string) uintptr {
	at := make([]uintptr, len(texts)+1) // The last one is the zero that ends it.
	for i, text := range texts {
		at[i] = p.text(text)
	}
	return p.bytes(bytesOf(&at[0], len(at)))
}

// bytesOf is the memory of some values.
func bytesOf[T any](first *T, count int) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(first)), count*int(unsafe.Sizeof(*first)))
}

// planOf puts a launch together for a nest.
func planOf(l *launch, n *nest) ([]byte, *StartError) {
	spec := &l.order.Spec
	p := &planner{base: uintptr(unsafe.Pointer(&n.data))}
	p.plan.path, p.plan.workdir = p.text(l.path), p.text(spec.Workdir)
	p.plan.argv, p.plan.env = p.texts(spec.Command), p.texts(l.env)
	p.plan.ownCgroups = n.joinsN > 0 || l.order.Leaf != ""
	if p.plan.changesUser = !l.order.Rootless; p.plan.changesUser {
		p.plan.uid, p.plan.gid = uintptr(l.who.uid), uintptr(l.who.gid)
		if p.plan.groupsN = uintptr(len(l.who.groups)); p.plan.groupsN > 0 {
			p.plan.groups = p.bytes(bytesOf(&l.who.groups[0], len(l.who.groups)))
		}
	}
	p.plan.gains = spec.IDs != nil
	p.plan.bound, p.plan.ambient = uint64(l.kept), uint64(l.ambient)
	if len(l.filter) > 0 {
		p.plan.filter.length, p.plan.filter.at = uint16(len(l.filter)), p.bytes(bytesOf(&l.filter[0], len(l.filter)))
	}
	if err := p.limit(spec.Rlimits, l.order.Rootless); err != nil {
		return nil, fail("rlimits", fault.OfMachine(err))
	}
	if p.plan.length = uintptr(len(p.data)); p.plan.length > maxPlanBytes {
		return nil, &StartError{CodeNotExecutable, "exec", "command and environment are longer than the kernel takes", unix.E2BIG}
	}
	return append(bytesOf(&p.plan, 1), p.data...), nil
}

// limit orders the limits: the last one of a name counts. That of the user's processes is set when the user was changed, by
// who may then only lower it, so it is raised before.
func (p *planner) limit(limits []Rlimit, rootless bool) error {
	places := map[string]uintptr{}
	for index, limit := range limits {
		// -1 becomes the largest number, which is the kernel's word for unlimited.
		set := selfLimit{uintptr(rlimitNumbers[limit.Name]), uint64(limit.Soft), uint64(limit.Hard), uintptr(index)}
		if limit.Name == "nproc" && !rootless {
			p.plan.late, p.plan.lateN = set, 1
			var now unix.Rlimit
			if err := unix.Getrlimit(int(set.number), &now); err != nil {
				return fmt.Errorf("%s: %w", limit.Name, err)
			}
			if set.hard <= now.Max {
				continue
			}
			set.soft = set.hard
		}
		place, again := places[limit.Name]
		if !again {
			place = p.plan.limitsN
			places[limit.Name] = place
			p.plan.limitsN++
		}
		p.plan.limits[place] = set
	}
	return nil
}

// The steps that a fork can fail in.
const (
	stepClose uint16 = iota
	stepDeath
	stepHide
	stepProc
	stepLetGo
	stepEnter
	stepFork
	stepBinary
	stepJoin
	stepCgroups
	stepLimits
	stepIDs
	stepBound
	stepPrivileges
	stepFilter
	stepAmbient
	stepGroups
	stepGroup
	stepUser
	stepWorkdir
	stepStdio
	stepExec
)

var stepNames = map[uint16][2]string{ // the step, and what was being done, as the caller is told
	stepClose: {"files", "close those of the starter"}, stepDeath: {"die with starter", "ask for its death"}, stepHide: {"hide init", "make it not dumpable"}, stepProc: {"root", "mount proc"},
	stepLetGo: {"root", "let go of the machine's root"}, stepEnter: {"root", "chroot"}, stepFork: {"fork", "make the command's process"},
	stepCgroups: {"cgroup namespace", "unshare"}, stepBound: {"capabilities", "drop capability"},
	stepIDs:        {"user namespace", "enter"},
	stepPrivileges: {"no_new_privs", "set"}, stepFilter: {"seccomp", "set filter"}, stepAmbient: {"capabilities", "hand to the user"},
	stepGroups: {"user", "groups"}, stepGroup: {"user", "group"}, stepUser: {"user", "uid"}, stepStdio: {"stdio", "put in place"},
}

// explain turns a fork's word of a failure into what the caller is told; the exec's into what a shell would say.
func explain(said record, spec *Spec, joins []string) *StartError {
	errno := syscall.Errno(said.value)
	// What no job names is the machine's fault. Its workdir is named, and so is its command.
	var cause error = fault.OfMachine(errno)
	if said.step == stepWorkdir || said.step == stepBinary {
		cause = errno
	}
	tell := func(code int, step, format string, values ...any) *StartError {
		return &StartError{code, step, fmt.Sprintf(format, values...), cause}
	}
	switch said.step {
	case stepJoin:
		return tell(CodeSetupFailed, "join cgroup "+joins[said.index], "%v", errno)
	case stepLimits:
		limit := spec.Rlimits[said.index]
		return tell(CodeSetupFailed, "rlimits", "%s %d:%d: %v", limit.Name, limit.Soft, limit.Hard, errno)
	case stepWorkdir:
		return tell(CodeSetupFailed, "workdir", "%s is no directory that the task's user can enter: %v", spec.Workdir, errno)
	case stepBinary:
		return tell(CodeNotExecutable, "exec", "%s leads to the binary that runs containers, which no task may execute from the machine", spec.Command[0])
	case stepExec:
		return explainExec(errno, spec.Command[0])
	}
	name := stepNames[said.step]
	return tell(CodeSetupFailed, name[0], "%s: %v", name[1], errno)
}

func explainExec(err error, command string) *StartError {
	switch {
	case errors.Is(err, unix.ENOENT):
		return &StartError{CodeNotFound, "exec", command + " is there, but not the interpreter that it names", err}
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.ENOEXEC), errors.Is(err, unix.EISDIR), errors.Is(err, unix.EPERM),
		errors.Is(err, unix.ELIBBAD), errors.Is(err, unix.ETXTBSY), errors.Is(err, unix.EINVAL), errors.Is(err, unix.ELOOP):
		return &StartError{CodeNotExecutable, "exec", fmt.Sprintf("%s cannot be executed: %v", command, err), err}
	}
	return &StartError{CodeSetupFailed, "exec", fmt.Sprintf("%s: %v", command, err), err}
}

// CallsWith are the capabilities that count for which system calls a task may make. Where it may place its memory
// it needs no right for that but the calls.
func CallsWith(spec *Spec) []string {
	names := Capabilities(spec.CapAdd, spec.CapDrop)
	if spec.Seccomp == SeccompNUMA {
		names = append(names, "CAP_SYS_NICE")
	}
	return names
}

// seccompProgram answers the filter of a spec, and what is lost where there is none for this machine.
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
