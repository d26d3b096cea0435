package verdict

import (
	"cmp"
	"fmt"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// exited returns the exit of a rank that ended by itself.
func exited(code int32, change ...func(*messages.Exit)) *messages.Exit {
	e := &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: code, ByItself: true}
	for _, c := range change {
		c(e)
	}
	return e
}

func signal(n int32) func(*messages.Exit) {
	return func(e *messages.Exit) { e.Signal, e.Code = n, 128+n }
}

func evidence(ev *messages.Evidence) func(*messages.Exit) {
	return func(e *messages.Exit) { e.Evidence = ev }
}

func output(lines ...string) func(*messages.Exit) { return evidence(&messages.Evidence{Output: lines}) }

func raised(text string) func(*messages.Exit) {
	return evidence(&messages.Evidence{Error: text, Frame: "train.py:211"})
}

func never(k messages.ExitKind, f messages.Fault) *messages.Exit {
	return &messages.Exit{Kind: k, Code: 125, Fault: f, Detail: "why"}
}

func oom(s messages.OomScope) func(*messages.Exit) {
	return func(e *messages.Exit) { e.Oom, e.Evidence = true, &messages.Evidence{OomScope: s} }
}

func xids(n ...int32) func(*messages.Exit) { return evidence(&messages.Evidence{Xids: n}) }

const (
	prepareFailed = messages.ExitKind_EXIT_KIND_PREPARE_FAILED
	launchFailed  = messages.ExitKind_EXIT_KIND_LAUNCH_FAILED
)

// TestClassify checks the class of each kind of exit, whether the user is charged, and the reason.
func TestClassify(t *testing.T) {
	full := func(e *messages.Exit) {
		if e.Evidence == nil {
			e.Evidence = &messages.Evidence{}
		}
		e.Evidence.DiskFull = true
	}
	disk := func(e *messages.Exit) { e.Disk, e.ByItself, e.Detail = true, false, "the task kept 2 MiB" }
	log := func(line string, printed ...string) func(*messages.Exit) {
		return evidence(&messages.Evidence{Kernel: line, Output: printed})
	}
	rows := []struct {
		name   string
		exit   *messages.Exit
		want   string // class, and "charged" or "free"
		reason string // a part of it
	}{
		{"exit code", exited(3), "user charged", "exited with code 3"},
		{"command not found", exited(127), "user charged", "not found"},
		{"not executable", exited(126), "user charged", "not executable"},
		{"an exception", exited(1, raised("ValueError: bad shape")), "user charged", "ValueError: bad shape in train.py:211"},
		{"a long exception", exited(1, raised("ValueError: bad. And more")), "user charged", "ValueError: bad in train.py"},
		{"segfault", exited(0, signal(11)), "user charged", "SIGSEGV"},
		{"bus error", exited(0, signal(7)), "user charged", "SIGBUS"},
		{"abort", exited(0, signal(6)), "user charged", "SIGABRT"},
		{"port taken", exited(1, raised("OSError: [Errno 98] Address already in use")), "user charged", "Address already"},
		{"CUDA memory", exited(1, raised("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB")),
			"out-of-memory charged", "CUDA out of memory in train.py:211"},
		{"CUDA memory in C++", exited(1, output("what(): CUDA out of memory")), "out-of-memory charged",
			"CUDA out of memory"},
		{"MemoryError", exited(1, raised("MemoryError")), "out-of-memory charged", "MemoryError in train.py:211"},
		{"the task's memory", exited(0, signal(9), oom(messages.OomScope_OOM_SCOPE_TASK)), "out-of-memory charged", "limit"},
		{"memory, old agent", exited(0, signal(9), func(e *messages.Exit) { e.Oom = true }), "out-of-memory charged", ""},
		{"a parent's memory", exited(0, signal(9), oom(messages.OomScope_OOM_SCOPE_PARENT)), "out-of-memory free", "above"},
		{"the host's memory", exited(0, signal(9), oom(messages.OomScope_OOM_SCOPE_HOST)), "out-of-memory free", "host"},
		{"killed by an unknown sender", exited(0, signal(9)), "unknown free", "SIGKILL of unknown origin"},
		{"terminated by an unknown sender", exited(0, signal(15)), "unknown free", "SIGTERM"},
		{"a shell's child killed", exited(137), "unknown free", "SIGKILL"},
		{"killed from outside", exited(0, signal(9),
			evidence(&messages.Evidence{EndedBy: messages.EndedBy_ENDED_BY_HOST})), "node free", "outside the task by SIGKILL"},
		{"no contact", &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 143, Signal: 15,
			Evidence: &messages.Evidence{EndedBy: messages.EndedBy_ENDED_BY_NO_CONTACT}}, "network free", "contact"},
		{"disk limit", exited(137, disk), "storage charged", "kept 2 MiB"},
		{"the node's disk", exited(137, disk, full), "storage free", ""},
		{"no space", exited(1, raised("OSError: [Errno 28] No space left on device"), full), "storage free", "train.py:211"},
		{"no space elsewhere", exited(1, raised("OSError: [Errno 28] No space left on device")), "user charged", "No space"},
		{"another error on a full disk", exited(1, raised("ValueError: x"), full), "user charged", "ValueError"},
		{"bus error on a full disk", exited(0, signal(7), full), "storage free", "no space"},
		{"a failed disk", exited(1, log("blk_update_request: I/O error, dev sdb", "OSError: [Errno 5] Input/output error")),
			"storage free", "dev sdb"},
		{"printed I/O error", exited(1, output("OSError: [Errno 5] Input/output error")), "user charged", "code 1"},
		{"a disk error without a symptom", exited(1, log("blk_update_request: I/O error, dev sdb", "bad")), "user charged",
			""},
		{"bad memory", exited(0, signal(7), log("mce: [Hardware Error]: Machine check")), "node free", "Machine check"},
		{"a failed link", exited(1, log("mlx5_core: Link down", "NCCL error: remote peer")), "network free", "Link down"},
		{"a printed link error", exited(1, output("mlx5_core: Link down")), "user charged", ""},
		{"a printed Xid", exited(1, output("NVRM: Xid (PCI:0000:01:00): 79, GPU has fallen off")), "user charged", ""},
		{"Xid 79", exited(1, xids(79)), "gpu free", "Xid 79"},
		{"Xid 79 after 13", exited(1, xids(13, 79)), "gpu free", "Xid 79"},
		{"Xid 79 of a stopped rank", exited(143, xids(45, 79), func(e *messages.Exit) { e.ByItself = false }), "gpu free",
			"Xid 79"},
		{"Xid 94", exited(1, xids(94)), "gpu free", ""},
		{"Xid 63 is news", exited(1, xids(63)), "user charged", "code 1"},
		{"rebooted", never(messages.ExitKind_EXIT_KIND_REBOOTED, 0), "node free", "rebooted"},
		{"removed", never(messages.ExitKind_EXIT_KIND_REMOVED, 0), "node free", "removed"},
		{"supervisor", never(messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST, 0), "node free", "why"},
		{"unhealthy", &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_NEVER_STARTED, Unwell: true}, "node free", "health"},
		{"never started", never(messages.ExitKind_EXIT_KIND_NEVER_STARTED, 0), "node free", ""},
		{"never started, full disk", never(messages.ExitKind_EXIT_KIND_NEVER_STARTED, 0), "storage free", ""},
		{"image missing", never(prepareFailed, messages.Fault_FAULT_UNKNOWN), "user free", "why"},
		{"a faulty spec", never(prepareFailed, messages.Fault_FAULT_JOB), "user free", "why"},
		{"prolog", never(prepareFailed, messages.Fault_FAULT_MACHINE), "node free", "why"},
		{"launch", never(launchFailed, messages.Fault_FAULT_MACHINE), "node free", "why"},
	}
	for i := range rows {
		if rows[i].name == "never started, full disk" {
			full(rows[i].exit)
		}
		got := Classify(rows[i].exit)
		reason := cmp.Or(got.Explain, got.Reason)
		if words := words(got.Class, got.Charged); words != rows[i].want || !strings.Contains(reason, rows[i].reason) {
			t.Errorf("%s: %s, %q; want %s, %q", rows[i].name, words, reason, rows[i].want, rows[i].reason)
		}
	}
	for _, n := range []int32{13, 31, 43, 45} {
		if got := Classify(exited(1, xids(n))); words(got.Class, got.Charged) != "user charged" {
			t.Errorf("Xid %d: %+v", n, got)
		}
	}
}

func words(c messages.FailureClass, charged bool) string {
	if charged {
		return Word(c) + " charged"
	}
	return Word(c) + " free"
}

// gang returns an attempt with n ranks, two on each node.
func gang(n int32) *messages.AttemptRecord {
	a := &messages.AttemptRecord{}
	for r := range n {
		a.Places = append(a.Places, &messages.Place{Rank: r, Node: fmt.Sprint("n", r/2)})
	}
	return a
}

func failed(rank int32, ms int64, e *messages.Exit) Failure {
	return Failure{Rank: rank, Node: fmt.Sprint("n", rank/2), Exit: e, Ended: ms}
}

// TestJudge checks which rank failed first in gangs, and that the loss of a node explains the failures after it.
func TestJudge(t *testing.T) {
	reset := func() *messages.Exit { return exited(1, raised("RuntimeError: Connection reset by peer")) }
	stopped := &messages.Exit{Kind: messages.ExitKind_EXIT_KIND_EXITED, Code: 143, Signal: 15}
	for name, c := range map[string]struct {
		failures []Failure
		lost     []Lost
		last     messages.FailureClass
		want     string
	}{
		"by time": {failures: []Failure{failed(5, 20, exited(2)), failed(6, 10, exited(3))},
			want: "user charged: failed: rank 6 on n3, exited with code 3; 7 others ended because of it"},
		"by rank": {failures: []Failure{failed(5, 10, exited(2)), failed(2, 10, exited(3))},
			want: "user charged: failed: rank 2 on n1, exited with code 3; 7 others ended because of it"},
		"an exception that exits late": {
			failures: []Failure{failed(0, 5, reset()), failed(1, 6, reset()), failed(4, 90, exited(1, raised("KeyError: 'x'")))},
			want:     "user charged: failed: rank 4 on n2, KeyError: 'x' in train.py:211; 7 others ended because of it"},
		"only echoes": {failures: []Failure{failed(3, 5, reset()), failed(1, 6, reset())},
			want: "user charged: failed: rank 3 on n1, RuntimeError: Connection reset by peer in train.py:211; " +
				"7 others ended because of it"},
		"a stopped rank never comes first": {failures: []Failure{failed(0, 1, stopped), failed(1, 6, exited(4))},
			want: "user charged: failed: rank 1 on n0, exited with code 4; 7 others ended because of it"},
		"the GPU before its peers' timeouts": {
			failures: []Failure{failed(0, 5, reset()), failed(7, 900, exited(1, xids(79)))},
			want:     "gpu free: failed: rank 7 on n3, the GPU failed (Xid 79); 7 others ended because of it"},
		"the node is lost": {failures: []Failure{failed(0, 50, reset())}, lost: []Lost{{"n2", 40}},
			want: "node free: failed: rank 4 on n2, the node was lost; 7 others ended because of it"},
		"the first lost node": {failures: []Failure{failed(0, 50, exited(1))}, lost: []Lost{{"n2", 40}, {"n3", 30}},
			want: "node free: failed: rank 6 on n3, the node was lost; 7 others ended because of it"},
		"a faulty spec, and a node is lost": {
			failures: []Failure{failed(0, 50, never(prepareFailed, messages.Fault_FAULT_JOB))}, lost: []Lost{{"n2", 40}},
			want: "user free: failed: rank 0 on n0, why; 7 others ended because of it"},
		"a node lost later": {failures: []Failure{failed(0, 50, exited(9))}, lost: []Lost{{"n2", 60}},
			want: "user charged: failed: rank 0 on n0, exited with code 9; 7 others ended because of it"},
		"not started because of another": {
			failures: []Failure{failed(0, 1, never(messages.ExitKind_EXIT_KIND_NEVER_STARTED, 0)),
				failed(3, 9, never(prepareFailed, messages.Fault_FAULT_JOB))},
			want: "user free: failed: rank 3 on n1, why; 7 others ended because of it"},
		"unknown": {failures: []Failure{failed(0, 1, exited(0, signal(9)))},
			want: "unknown free: failed: rank 0 on n0, ended by SIGKILL of unknown origin; 7 others ended because of it"},
		"unknown twice": {failures: []Failure{failed(0, 1, exited(0, signal(9)))}, last: unknown,
			want: "unknown charged: failed: rank 0 on n0, ended by SIGKILL of unknown origin; 7 others ended because of it"},
	} {
		v := Judge(Case{Attempt: gang(8), Failures: c.failures, Lost: c.lost, Last: &messages.Verdict{Class: c.last},
			End: &messages.End{Cause: messages.Cause_CAUSE_MEMBER_FAILED}})
		if got := words(v.Class, v.Charged) + ": " + Sentence(v); got != c.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, c.want)
		}
	}
}

// TestJudgeByCause checks the verdicts on ends that the leader decides.
func TestJudgeByCause(t *testing.T) {
	for cause, want := range map[messages.Cause]string{
		messages.Cause_CAUSE_SUCCEEDED:    "",
		messages.Cause_CAUSE_CANCELLED:    "",
		messages.Cause_CAUSE_REQUEUED:     "",
		messages.Cause_CAUSE_TIME_LIMIT:   "timeout free",
		messages.Cause_CAUSE_PREEMPTED:    "preempted free",
		messages.Cause_CAUSE_START_BY:     "preempted free",
		messages.Cause_CAUSE_MACHINE_LOST: "node free",
		messages.Cause_CAUSE_DRAINED:      "",
		messages.Cause_CAUSE_GPU_FAULT:    "gpu free",
	} {
		v := Judge(Case{Attempt: gang(8), End: &messages.End{Cause: cause, Rank: -1, Detail: "why"}})
		got := ""
		if v != nil {
			got = words(v.Class, v.Charged)
		}
		if got != want || v != nil && (v.Rank != -1 || v.Reason != "why" || v.Others != 0) {
			t.Errorf("%v: %q %v, want %q", cause, got, v, want)
		}
	}
	lost := Judge(Case{Attempt: gang(8), End: &messages.End{Cause: messages.Cause_CAUSE_MACHINE_LOST, Rank: -1, Node: "n2",
		Detail: "n2 was lost"}})
	if got := Sentence(lost); got != "failed: rank 4 on n2, n2 was lost; 6 others ended because of it" {
		t.Error(got)
	}
	for cause := range messages.Cause_name {
		c := messages.Cause(cause)
		v := Judge(Case{Attempt: gang(2), End: &messages.End{Cause: c, Rank: -1}})
		if _, known := classOf[c]; v != nil && !known && c != messages.Cause_CAUSE_MEMBER_FAILED {
			t.Errorf("%v has no class", c)
		}
	}
}

// TestRepeated checks that only the same error at the same known step counts as repeated.
func TestRepeated(t *testing.T) {
	of := func(text string, step int64) *messages.Exit {
		return exited(1, evidence(&messages.Evidence{Error: text, Frame: "a.py:1", Step: step}))
	}
	judge := func(e *messages.Exit, last *messages.Verdict) *messages.Verdict {
		return Judge(Case{Attempt: gang(1), Failures: []Failure{failed(0, 1, e)}, Last: last.Brief(),
			End: &messages.End{Cause: messages.Cause_CAUSE_MEMBER_FAILED}})
	}
	first := judge(of("KeyError: 'x'", 1200), nil)
	if first.Repeated {
		t.Error("the first failure is a repeated one")
	}
	again := judge(of("KeyError: 'x'", 1200), first)
	if text := Sentence(again); !again.Repeated || !strings.Contains(text, "not retried") ||
		!strings.Contains(text, "(1200)") {
		t.Error(text)
	}
	for name, v := range map[string]*messages.Verdict{
		"another step":  judge(of("KeyError: 'x'", 1300), first),
		"another error": judge(of("KeyError: 'y'", 1200), first),
		"no step":       judge(of("KeyError: 'x'", 0), judge(of("KeyError: 'x'", 0), nil)),
		"no error":      judge(exited(1), judge(exited(1), nil)),
		"an echo":       judge(of("EOFError: x", 5), judge(of("EOFError: x", 5), nil)),
	} {
		if v.Repeated {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// TestCopiesWithoutText checks that the short copies keep all fields except the texts.
func TestCopiesWithoutText(t *testing.T) {
	e := &messages.Evidence{OomScope: 1, Xids: []int32{31}, Kernel: "k", DiskFull: true, EndedBy: 1, Step: 4, Error: "e",
		Frame: "f", Output: []string{"o"}}
	fields := e.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		if !e.ProtoReflect().Has(fields.Get(i)) {
			t.Fatalf("the test does not set %s", fields.Get(i).Name())
		}
	}
	v := &messages.Verdict{Class: 1, Rank: 2, Node: "n", Reason: "r", Others: 3, Charged: true, Repeated: true,
		Evidence: e, Explanation: "x"}
	want := proto.Clone(v).(*messages.Verdict)
	want.Evidence.Output = nil
	if got := v.Brief(); !proto.Equal(got, want) || len(v.Evidence.Output) == 0 {
		t.Errorf("%v, want %v", got, want)
	}
	exit := &messages.Exit{Rank: 1, Code: 4, Evidence: e}
	bare := proto.Clone(exit).(*messages.Exit)
	bare.Evidence.Error, bare.Evidence.Frame, bare.Evidence.Kernel, bare.Evidence.Output = "", "", "", nil
	if got := WithoutText(exit); !proto.Equal(got, bare) {
		t.Errorf("%v, want %v", got, bare)
	}
}
