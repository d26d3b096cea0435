package verdict

import (
	"fmt"
	"slices"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns the table of rules that classify the exit of one rank.

// Finding is the cause of one rank's failure.
type Finding struct {
	Class   messages.FailureClass
	Charged bool   // the failure counts against restart.limit
	Reason  string // without the rank and the node
	Explain string // a better reason from printed texts; empty: there is none
	Echo    bool   // by its text, the rank ended because another rank did
	tier    int
}

const (
	user    = messages.FailureClass_FAILURE_CLASS_USER
	node    = messages.FailureClass_FAILURE_CLASS_NODE
	gpu     = messages.FailureClass_FAILURE_CLASS_GPU
	network = messages.FailureClass_FAILURE_CLASS_NETWORK
	storage = messages.FailureClass_FAILURE_CLASS_STORAGE
	memory  = messages.FailureClass_FAILURE_CLASS_OUT_OF_MEMORY
	unknown = messages.FailureClass_FAILURE_CLASS_UNKNOWN
)

// These are the signals that the rules name, with their numbers on Linux.
const (
	sigHup, sigInt, sigIll, sigBus, sigKill, sigSegv, sigTerm = 1, 2, 4, 7, 9, 11, 15
)

// facts holds an exit and the parts that the rules read.
type facts struct {
	*messages.Exit
	ev   *messages.Evidence
	text string // printed by the rank, in lower case
}

// These are the tiers of rules. Within a gang, the failure of the lowest tier is the first one, and within a tier the
// earliest.
const (
	sure   = iota // the failure never results from another rank, whenever it was noticed
	timely        // the time decides
	echoed        // the rank was stopped, or its text says that another rank was gone
	result        // the rank never started, usually because another one failed
)

// criterion is one row of the table.
type criterion struct {
	name    string
	tier    int
	holds   func(f *facts) bool
	class   messages.FailureClass
	charged bool
	reason  func(f *facts) string
	explain func(f *facts) string // from printed texts; nil: there is none
}

// rules is the table. The first rule that holds decides. Rules with evidence of the infrastructure come before rules
// that charge the user.
var rules = []criterion{
	{"unhealthy", sure, func(f *facts) bool { return f.Unwell }, node, false, detail("a health check failed"), nil},
	{"faulty spec", sure, func(f *facts) bool { return f.neverRan() && f.Fault != messages.Fault_FAULT_MACHINE }, user,
		false, detail("the task could not be prepared"), nil},
	{"faulty node", sure, (*facts).neverRan, node, false, detail("the task could not be started"), nil},
	{"rebooted", sure, kind(messages.ExitKind_EXIT_KIND_REBOOTED), node, false, says("the node rebooted"), nil},
	{"removed", sure, kind(messages.ExitKind_EXIT_KIND_REMOVED), node, false, says("the node was removed"), nil},
	{"supervisor", sure, kind(messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST), node, false,
		detail("the task's supervisor was lost"), nil},
	{"no room", timely, func(f *facts) bool { return f.neverStarted() && f.ev.GetDiskFull() }, storage, false,
		detail("the node's disk is full"), nil},
	{"not started", result, (*facts).neverStarted, node, false, detail("the task was never started"), nil},
	{"device", sure, func(f *facts) bool { return f.deviceXid() != 0 }, gpu, false,
		func(f *facts) string { return fmt.Sprintf("the GPU failed (Xid %d)", f.deviceXid()) }, nil},
	{"no contact", sure, endedBy(messages.EndedBy_ENDED_BY_NO_CONTACT), network, false,
		detail("the node lost contact with the scheduler"), nil},
	{"parent's memory", timely, scope(messages.OomScope_OOM_SCOPE_PARENT), memory, false,
		says("out of memory: a cgroup above the task reached its limit"), nil},
	{"host's memory", timely, scope(messages.OomScope_OOM_SCOPE_HOST), memory, false,
		says("out of memory: the host had none left"), nil},
	{"task's memory", timely, func(f *facts) bool { return f.Oom }, memory, true,
		says("out of memory: the task reached its limit (resources.memory)"), nil},
	{"node's disk", timely, func(f *facts) bool { return f.Disk && f.ev.GetDiskFull() }, storage, false,
		detail("the node's disk is full"), nil},
	{"task's disk", timely, func(f *facts) bool { return f.Disk }, storage, true,
		detail("the task reached its disk limit"), nil},
	{"hardware", sure, func(f *facts) bool {
		return Kernel(f.ev.GetKernel()) == node && f.signalled(sigBus, sigSegv, sigKill, sigIll)
	}, node, false, says("the kernel reports a hardware error"), (*facts).kernelLine},
	{"no space", timely, func(f *facts) bool { return f.ev.GetDiskFull() && (f.says(noSpace) || f.signalled(sigBus)) },
		storage, false, says("no space left on the node's disk"), located("no space left on the node's disk")},
	{"failed disk", timely, func(f *facts) bool {
		return Kernel(f.ev.GetKernel()) == storage && (f.says(badDisk) || f.signalled(sigBus))
	}, storage, false, says("the kernel reports a failed disk"), (*facts).kernelLine},
	{"failed link", timely, func(f *facts) bool { return Kernel(f.ev.GetKernel()) == network && f.says(peerGone) },
		network, false, says("the kernel reports a failed network link"), (*facts).kernelLine},
	{"host", timely, endedBy(messages.EndedBy_ENDED_BY_HOST), node, false,
		func(f *facts) string { return "ended by a process outside the task" + f.bySignal() }, nil},
	{"unexplained", timely, (*facts).unexplained, unknown, false,
		func(f *facts) string { return "ended" + f.bySignal() + " of unknown origin" }, nil},
	{"GPU memory", timely, func(f *facts) bool { return f.says(gpuMemory) }, memory, true, (*facts).status,
		located("CUDA out of memory")},
	{"MemoryError", timely, func(f *facts) bool { return strings.HasPrefix(f.ev.GetError(), "MemoryError") }, memory, true,
		(*facts).status, located("MemoryError")},
	{"program's GPU work", timely, func(f *facts) bool { return f.ev.GetError() == "" && f.programXid() != 0 }, user, true,
		func(f *facts) string { return fmt.Sprintf("the program's GPU work failed (Xid %d)", f.programXid()) }, nil},
	{"traceback", timely, func(f *facts) bool { return f.ev.GetError() != "" }, user, true,
		(*facts).status, func(f *facts) string { return located(firstSentence(f.ev.GetError()))(f) }},
	{"signal", timely, func(f *facts) bool { return f.Signal != 0 }, user, true, (*facts).status, nil},
	{"not found", timely, code(127), user, true, detail("the command was not found (exit code 127)"), nil},
	{"not executable", timely, code(126), user, true, detail("the command is not executable (exit code 126)"), nil},
	{"code", timely, func(*facts) bool { return true }, user, true, (*facts).status, nil},
}

// Classify returns the cause of one rank's failure. It considers only this rank.
func Classify(e *messages.Exit) Finding {
	f := &facts{Exit: e, ev: e.GetEvidence()}
	f.text = strings.ToLower(f.ev.GetError())
	if f.text == "" {
		f.text = strings.ToLower(strings.Join(f.ev.GetOutput(), "\n"))
	}
	r := rules[slices.IndexFunc(rules, func(r criterion) bool { return r.holds(f) })]
	found := Finding{Class: r.class, Charged: r.charged, Reason: r.reason(f), tier: r.tier}
	if r.explain != nil {
		found.Explain = r.explain(f)
	}
	found.Echo = found.doubtful() && r.tier == timely && f.says(peerGone)
	if r.tier == timely && (found.Echo || !e.GetByItself() && !e.GetDisk()) {
		found.tier = echoed
	}
	return found
}

// doubtful reports whether no evidence of the kernel, the driver or an agent explains the failure.
func (f Finding) doubtful() bool { return f.Class == user || f.Class == unknown }

func kind(k messages.ExitKind) func(*facts) bool { return func(f *facts) bool { return f.Kind == k } }

func scope(s messages.OomScope) func(*facts) bool {
	return func(f *facts) bool { return f.Oom && f.ev.GetOomScope() == s }
}

func code(n int32) func(*facts) bool { return func(f *facts) bool { return f.Code == n } }

func says(text string) func(*facts) string { return func(*facts) string { return text } }

// detail returns the detail of the exit, or a text if there is none.
func detail(otherwise string) func(*facts) string {
	return func(f *facts) string {
		if f.Detail != "" {
			return f.Detail
		}
		return otherwise
	}
}

func (f *facts) kernelLine() string { return f.ev.GetKernel() }

// status returns how the rank ended.
func (f *facts) status() string {
	if f.Signal != 0 {
		return "ended" + f.bySignal()
	}
	return fmt.Sprintf("exited with code %d", f.Code)
}

// located adds the place in the traceback to a text.
func located(text string) func(*facts) string {
	return func(f *facts) string {
		if at := f.ev.GetFrame(); at != "" {
			return text + " in " + at
		}
		return text
	}
}

func endedBy(by messages.EndedBy) func(*facts) bool {
	return func(f *facts) bool { return f.ev.GetEndedBy() == by }
}

func (f *facts) neverStarted() bool { return f.Kind == messages.ExitKind_EXIT_KIND_NEVER_STARTED }

// unexplained reports whether the rank got a signal that usually comes from another process, and no evidence shows who
// sent it.
func (f *facts) unexplained() bool {
	byShell := f.Signal == 0 && (f.Code == 128+sigKill || f.Code == 128+sigTerm)
	return f.ByItself && (byShell || slices.Contains([]int32{sigKill, sigTerm, sigInt, sigHup}, f.Signal))
}

// neverRan reports whether the rank could not be prepared or launched.
func (f *facts) neverRan() bool {
	return f.Kind == messages.ExitKind_EXIT_KIND_PREPARE_FAILED || f.Kind == messages.ExitKind_EXIT_KIND_LAUNCH_FAILED
}

// signalled reports whether one of the signals ended the rank. A shell whose last command got the signal exits with 128
// + signal.
func (f *facts) signalled(signals ...int32) bool {
	return slices.Contains(signals, f.lastSignal())
}

func (f *facts) lastSignal() int32 {
	if f.Signal == 0 && f.Code > 128 {
		return f.Code - 128
	}
	return f.Signal
}

func (f *facts) bySignal() string {
	n := f.lastSignal()
	if n == 0 {
		return ""
	}
	if name := signalNames[n]; name != "" {
		return " by " + name
	}
	return fmt.Sprintf(" by signal %d", n)
}

var signalNames = map[int32]string{
	sigHup: "SIGHUP", sigInt: "SIGINT", 3: "SIGQUIT", sigIll: "SIGILL", 5: "SIGTRAP", 6: "SIGABRT", sigBus: "SIGBUS",
	8: "SIGFPE", sigKill: "SIGKILL", sigSegv: "SIGSEGV", 13: "SIGPIPE", sigTerm: "SIGTERM", 31: "SIGSYS",
}

// deviceXid returns the first driver error that a program cannot cause; 0: there is none.
func (f *facts) deviceXid() int32 {
	for _, n := range f.ev.GetXids() {
		if !slices.Contains(programXids, n) && !slices.Contains(informativeXids, n) {
			return n
		}
	}
	return 0
}

// programXid returns the first driver error that a program causes; 0: there is none.
func (f *facts) programXid() int32 {
	for _, n := range f.ev.GetXids() {
		if slices.Contains(programXids, n) {
			return n
		}
	}
	return 0
}

// programXids lists the driver errors that programs cause. informativeXids lists errors that end no program: a memory
// row was remapped, and the recommended recovery changed.
var (
	programXids     = []int32{13, 31, 43, 45}
	informativeXids = []int32{63, 154}
)

// firstSentence shortens an error to its first sentence.
func firstSentence(s string) string {
	s, _, _ = strings.Cut(s, ". ")
	return strings.TrimSuffix(cut(s, 160), ".")
}

func cut(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// says reports whether the rank printed one of the texts.
func (f *facts) says(texts []string) bool { return contains(f.text, texts) }

func contains(text string, any []string) bool {
	return slices.ContainsFunc(any, func(t string) bool { return strings.Contains(text, t) })
}

// Echo reports whether an error says that another process was gone.
func Echo(text string) bool { return contains(strings.ToLower(text), peerGone) }

// These texts narrow evidence down, and recognize a rank that failed because another rank did.
var (
	noSpace = []string{"no space left on device", "errno 28", "enospc", "disk quota exceeded", "errno 122"}
	badDisk = []string{
		"input/output error", "errno 5]", "read-only file system", "errno 30", "stale file handle", "errno 116",
	}
	gpuMemory = []string{"cuda out of memory", "hip out of memory", "cuda_error_out_of_memory"}
	peerGone  = []string{
		"connection reset", "connection refused", "connection closed", "broken pipe", "connectionreseterror",
		"brokenpipeerror", "remote peer", "peer closed", "lost connection", "connection timed out", "socket timeout",
		"no route to host", "network is unreachable", "host is unreachable",
		"ncclremoteerror", "ncclsystemerror", "nccl error", "ncclunhandled", "nccl communicator was aborted",
		"watchdog caught collective operation timeout", "collective operation timeout", "distbackenderror",
		"distnetworkerror", "childfailederror", "gloo", "tcpstore", "mpi_abort", "socket closed", "unexpected eof",
		"eoferror",
	}
)

// Kernel returns the class of failure that a line of the kernel log reports: node for the hardware, storage, network,
// or gpu. It returns the zero value for other lines.
func Kernel(line string) messages.FailureClass {
	line = strings.ToLower(line)
	for _, k := range kernelLines {
		if strings.Contains(line, k.text) {
			return k.class
		}
	}
	return messages.FailureClass_FAILURE_CLASS_UNSPECIFIED
}

var kernelLines = []struct {
	text  string
	class messages.FailureClass
}{
	{"hardware error", node}, {"memory failure: ", node}, {"machine check", node}, {"uncorrected error", node},
	{"i/o error", storage}, {"critical medium error", storage}, {"remounting filesystem read-only", storage},
	{"ext4-fs error", storage}, {"xfs (", storage}, {"not responding, timed out", storage}, {"nvme nvme", storage},
	{"link is down", network}, {"link down", network}, {"netdev watchdog", network}, {"link becomes unready", network},
	{"port_inactive", network}, {"nvrm: xid", gpu},
}
