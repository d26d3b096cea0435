package e2e

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the command line with several schedulers. A user's command must do its work, whichever scheduler
// leads or dies.

// running is a run of the command line that has not ended.
type running struct {
	said  terminal
	ended chan result
}

// terminal holds the output of a run so far.
type terminal struct {
	mu        sync.Mutex
	out, errs bytes.Buffer
}

type half struct {
	of *terminal
	to *bytes.Buffer
}

func (h half) Write(p []byte) (int, error) {
	h.of.mu.Lock()
	defer h.of.mu.Unlock()
	return h.to.Write(p)
}

func (t *terminal) texts() (out, errs string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.out.String(), t.errs.String()
}

// begins starts a run of the command line.
func (c *cluster) begins(args ...string) *running {
	c.t.Helper()
	cmd := c.command(filepath.Join(bin, "synapse-cli"), args...)
	r := &running{ended: make(chan result, 1)}
	cmd.Stdout, cmd.Stderr = half{&r.said, &r.said.out}, half{&r.said, &r.said.errs}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = cmd.Process.Kill() })
	began := time.Now()
	go func() {
		_ = cmd.Wait()
		out, errs := r.said.texts()
		r.ended <- result{args, cmd.ProcessState.ExitCode(), out, errs, time.Since(began)}
	}()
	return r
}

// says waits until a run has printed a text.
func (r *running) says(t *testing.T, text string) {
	t.Helper()
	for limit := pace.Until(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		out, errs := r.said.texts()
		if strings.Contains(out+errs, text) {
			return
		}
		if time.Now().After(limit) {
			t.Fatalf("%q was not printed:\n%s\n%s", text, out, errs)
		}
	}
}

func (r *running) end(t *testing.T, within time.Duration) result {
	t.Helper()
	select {
	case a := <-r.ended:
		return a
	case <-time.After(within):
		out, errs := r.said.texts()
		t.Fatalf("the command has not ended within %s:\n%s\n%s", within, out, errs)
		return result{}
	}
}

// TestCommandLineOverLeaders lists three schedulers, and kills the leader between commands, while they run, and while
// they start.
func TestCommandLineOverLeaders(t *testing.T) {
	c := newCouncil(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	kill := func() {
		leads, _ := c.leader()
		c.members[leads].kill()
		c.seat(leads)
		c.await(leads)
	}
	c.leader()

	// Any command finds the leader, at any position in the list.
	for i := range seats {
		var turned []string
		for j := range seats {
			turned = append(turned, c.members[(i+j)%seats].address)
		}
		cmd := c.command(filepath.Join(bin, "synapse-cli"), "--server", strings.Join(turned, ","), "get", "nodes", "-q")
		ask(t, cmd).wants(t, 0, "n1\nn2\n", "")
	}

	// Two leaders die while a user waits, reads and watches. Nothing may be lost or repeated.
	const ticks = 60
	waits := c.begins(shell(fmt.Sprintf("i=0; while [ $i -lt %d ]; do echo tick $i; i=$((i+1)); sleep 0.25; done; exit 42",
		ticks), "--wait", "--workdir", "/")...)
	waits.says(t, "running")
	out, _ := waits.said.texts() // the ID was printed before the first progress message
	for limit := pace.Until(5 * time.Second); out == "" && time.Now().Before(limit); out, _ = waits.said.texts() {
		time.Sleep(10 * time.Millisecond) // it arrives through a separate pipe
	}
	id := strings.TrimSpace(out)
	follows := c.begins("logs", "-f", id)
	watches := c.begins("watch", id)
	watches.says(t, "running")
	follows.says(t, "tick 3\n")
	kill()
	follows.says(t, "tick 30\n")
	kill()
	if a := waits.end(t, time.Minute); a.code != 42 || strings.TrimSpace(a.out) != id {
		t.Errorf("submit --wait ended with %d, and printed %q, %q", a.code, a.out, a.err)
	}
	var want strings.Builder
	for i := range ticks {
		fmt.Fprintf(&want, "[0] tick %d\n", i)
	}
	if a := follows.end(t, 15*time.Second); a.code != 0 || a.out != want.String() {
		t.Errorf("logs -f ended with %d, and read %q, %q", a.code, a.out, a.err)
	}
	watches.says(t, "failed")
	if out, errs := watches.said.texts(); strings.Count(out, "running on") != 1 ||
		!strings.Contains(errs, "waiting for the scheduler to return") {
		t.Errorf("watched %q, %q", out, errs)
	}

	// A command without a leader waits for one, and is executed once.
	leads, _ := c.leader()
	c.members[leads].kill()
	c.cli(shell("exit 7", "--wait")...).wants(t, 7, "\n", "")
	c.cli("get", "jobs", "-q").wants(t, 0, id+"\n", "")
	if a := c.cli("get", "jobs", "-q"); strings.Count(a.out, "\n") != 2 {
		t.Errorf("two jobs were submitted, but the jobs are %q", a.out)
	}
	c.cli("explain", id).wants(t, 0, "exited with code 42", "")
	c.cli("wait", id).wants(t, 42, "", "")
}
