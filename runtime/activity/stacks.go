package activity

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file collects the stacks of a task's threads, so that they can be read after the task has ended.

const (
	// MaxStackBytes bounds the text.
	MaxStackBytes = 1 << 20
	// stackPatience bounds the time for the stacks of one Python process, and allPatience that of all.
	stackPatience = 4 * time.Second
	allPatience   = 9 * time.Second
)

// Stacks returns what the threads of a task do: state, system call and kernel stack. If pySpy is the path of py-spy, it
// also returns the stacks of Python processes.
func Stacks(ctx context.Context, members []supervisor.Process, s State, pySpy string) []byte {
	ctx, cancel := context.WithTimeout(ctx, allPatience)
	defer cancel()
	var out bytes.Buffer
	for _, p := range members {
		if p.State == 'Z' || p.State == 'X' {
			continue
		}
		fmt.Fprintf(&out, "process %d (%s), state %c\n", p.PID, programOf(p.PID), p.State)
		for _, t := range s.Threads {
			if t.PID == p.PID {
				t.print(&out)
			}
		}
		if pySpy != "" && strings.Contains(programOf(p.PID), "python") {
			out.Write(python(ctx, pySpy, p.PID))
		}
		if out.Len() > MaxStackBytes {
			break
		}
	}
	return out.Bytes()[:min(out.Len(), MaxStackBytes)]
}

func (t Thread) print(out *bytes.Buffer) {
	fmt.Fprintf(out, "  thread %d (%s), state %c", t.TID, t.Name, max(t.State, '?'))
	if t.Call != "" {
		fmt.Fprintf(out, ", in %s", t.Call)
	}
	if t.Channel != "" {
		fmt.Fprintf(out, ", kernel waits in %s", t.Channel)
	}
	out.WriteByte('\n')
	stack, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/stack", t.PID, t.TID)) // only for root
	for line := range strings.Lines(string(stack)) {
		fmt.Fprintf(out, "    %s\n", strings.TrimSpace(line))
	}
}

func programOf(pid int) string {
	data, _ := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/comm")
	return strings.TrimSpace(string(data))
}

// python returns the stacks of a Python process. It does not pause the process.
func python(ctx context.Context, pySpy string, pid int) []byte {
	ctx, cancel := context.WithTimeout(ctx, stackPatience)
	defer cancel()
	c := exec.CommandContext(ctx, pySpy, "dump", "--nonblocking", "--pid", strconv.Itoa(pid))
	c.WaitDelay = time.Second
	var out bounded
	c.Stdout, c.Stderr = &out, &out
	if err := c.Run(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		out.text = append(out.text, fmt.Sprintf("\npy-spy: %v\n", err)...)
	}
	return out.text
}

// bounded keeps the first MaxStackBytes of what is written, because a task decides how much its stacks print.
type bounded struct{ text []byte }

func (b *bounded) Write(p []byte) (int, error) {
	b.text = append(b.text, p[:min(len(p), MaxStackBytes-len(b.text))]...)
	return len(p), nil
}
