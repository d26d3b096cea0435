package evidence

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// TestTraceback checks which error and which place of a task's output explain its failure.
func TestTraceback(t *testing.T) {
	const plain = `loading
Traceback (most recent call last):
  File "/home/ann/train.py", line 300, in <module>
    main()
    ~~~~^^
  File "/home/ann/train.py", line 211, in step
    y = model(x)
  File "/usr/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input)
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
`
	const chained = `Traceback (most recent call last):
  File "a.py", line 1, in f
    {}["x"]
KeyError: 'x'

During handling of the above exception, another exception occurred:

Traceback (most recent call last):
  File "a.py", line 3, in g
    raise ValueError("no x")
ValueError: no x
`
	const launched = `[rank3]: Traceback (most recent call last):
[rank1]: Traceback (most recent call last):
[rank3]:   File "/w/b.py", line 7, in <module>
[rank1]:   File "/w/b.py", line 9, in <module>
[rank3]:     boom()
[rank3]: RuntimeError: bad batch
[rank1]: torch.distributed.DistBackendError: NCCL error: remote process exited
Traceback (most recent call last):
  File "/usr/bin/torchrun", line 8, in <module>
    sys.exit(main())
torch.distributed.elastic.multiprocessing.errors.ChildFailedError:
`
	const reset = `Traceback (most recent call last):
  File "/w/c.py", line 5, in <module>
    all_reduce(x)
RuntimeError: Connection closed by peer [10.0.0.3]:1
`
	for name, c := range map[string]struct{ text, want string }{
		"plain":         {plain, "train.py:211 torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB."},
		"chained":       {chained, "a.py:3 ValueError: no x"},
		"by a launcher": {launched, "b.py:7 RuntimeError: bad batch"},
		"only an echo":  {reset, "c.py:5 RuntimeError: Connection closed by peer [10.0.0.3]:1"},
		"cut":           {plain[:200], " "},
		"none":          {"done\n", " "},
		"empty":         {"", " "},
	} {
		to := &messages.Evidence{}
		Printed([]byte(c.text), to)
		if got := to.Frame + " " + to.Error; got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}

// TestPrintedIsBounded checks that the evidence has the last lines, as printable text of a bounded size.
func TestPrintedIsBounded(t *testing.T) {
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "line %d\x1b[31m\n", i)
	}
	to := &messages.Evidence{}
	Printed([]byte(text.String()), to)
	if n := len(to.Output); n != messages.MaxEvidenceLines || !strings.HasPrefix(to.Output[n-1], "line 99") ||
		strings.Contains(to.Output[0], "\x1b") {
		t.Errorf("%q", to.Output)
	}
	Printed([]byte(strings.Repeat(strings.Repeat("ö", 10_000)+"\n", 50)), to)
	size := 0
	for _, line := range to.Output {
		size += len(line)
	}
	if size == 0 || size > maxOutput {
		t.Errorf("%d bytes", size)
	}
	for _, silent := range []string{"", "\n", " \n\t\n"} {
		to := &messages.Evidence{}
		if Printed([]byte(silent), to); len(to.Output) != 0 {
			t.Errorf("%q: %q", silent, to.Output)
		}
	}
}

// kernelLine returns a record of the kernel log.
func kernelLine(priority int, at time.Duration, text string) string {
	return fmt.Sprintf("%d,1,%d,-;%s\n SUBSYSTEM=pci\n", priority, at.Microseconds(), text)
}

// TestExplain checks which messages of the kernel are about a task, and whose memory limit they name.
func TestExplain(t *testing.T) {
	const began, ended = 100 * time.Second, 5000 * time.Second
	kill := func(more string) string {
		return "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/," + more + ",task=python,pid=77,uid=0"
	}
	at := ended - time.Second
	xid := func(bus string, n int) string {
		return fmt.Sprintf("NVRM: Xid (PCI:%s): %d, pid=77, name=python", bus, n)
	}
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"the task's limit": {[]string{
			kernelLine(6, at, kill("oom_memcg=/s/3.7-0-ab,task_memcg=/s/3.7-0-ab")),
			kernelLine(3, at, "Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB"),
		}, "TASK [] Memory cgroup out of memory: Killed process 77 (python) total-vm:1kB"},
		"a limit inside the task": {[]string{kernelLine(6, at, kill("oom_memcg=/s/3.7-0-ab/in,task_memcg=/s/3.7-0-ab/in/x"))},
			"TASK [] oom-kill:"},
		"a limit above": {[]string{kernelLine(6, at, kill("oom_memcg=/s,task_memcg=/s/3.7-0-ab"))}, "PARENT [] oom-kill:"},
		"the host":      {[]string{kernelLine(6, at, kill("global_oom,task_memcg=/s/3.7-0-ab"))}, "HOST [] oom-kill:"},
		"another task": {[]string{kernelLine(6, at, "oom-kill:constraint=CONSTRAINT_MEMCG,oom_memcg=/s/3.7-01-ab,"+
			"task_memcg=/s/3.7-01-ab,task=python,pid=78,uid=0")}, "UNSPECIFIED [] "},
		"before the task": {[]string{kernelLine(6, began-10*time.Second, kill("global_oom,task_memcg=/s/3.7-0-ab"))},
			"UNSPECIFIED [] "},
		"by a program": {[]string{kernelLine(14, at, kill("global_oom,task_memcg=/s/3.7-0-ab"))}, "UNSPECIFIED [] "},
		"a segfault": {[]string{kernelLine(6, at, "python[77]: segfault at 0 ip 1 sp 2 error 4"),
			kernelLine(6, at, "python[78]: segfault at 0 ip 1 sp 2 error 4")},
			"UNSPECIFIED [] python[77]: segfault at 0 ip 1 sp 2 error 4"},
		"Xids": {[]string{kernelLine(3, at, xid("0000:01:00", 31)), kernelLine(3, at, xid("0000:01:00", 31)),
			kernelLine(3, at, xid("0000:01:00", 79)), kernelLine(3, at, xid("0000:02:00", 48)),
			kernelLine(12, at, xid("0000:01:00", 95))}, "UNSPECIFIED [31 79] "},
		"a bad disk": {[]string{kernelLine(3, at, "I/O error, dev sda, sector 8")}, "UNSPECIFIED [] I/O error, dev sda"},
		"a bad disk long ago": {[]string{kernelLine(3, at-time.Hour, "I/O error, dev sda, sector 8")},
			"UNSPECIFIED [] "},
	} {
		path := filepath.Join(t.TempDir(), "kmsg")
		if err := os.WriteFile(path, []byte(strings.Join(c.lines, "")), 0o600); err != nil {
			t.Fatal(err)
		}
		to := &messages.Evidence{}
		s := Subject{PID: 77, Cgroup: "3.7-0", Buses: []string{"0000:01:00"}, BeganNs: int64(began), EndedNs: int64(ended)}
		s.Explain(Log(path, 0), to)
		scope := strings.TrimPrefix(to.OomScope.String(), "OOM_SCOPE_")
		if got := fmt.Sprintf("%s %v %s", scope, slices.Clone(to.Xids), to.Kernel); !strings.HasPrefix(got, c.want) ||
			strings.HasSuffix(c.want, "] ") && got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if Log("/no/such/log", 0) != nil {
		t.Error("a log that does not exist has messages")
	}
}
