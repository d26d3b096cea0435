//go:build unix

package main

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// TestWaitEndsAsTheJobDoes checks the exit code for each end of a job.
func TestWaitEndsAsTheJobDoes(t *testing.T) {
	f := startFake(t)
	for _, c := range []struct {
		phase string
		state messages.JobState
		code  int32
		want  int
	}{
		{"succeeded", messages.JobState_JOB_STATE_SUCCEEDED, 0, 0}, {"failed", messages.JobState_JOB_STATE_FAILED, 137, 137},
		{"cancelled", messages.JobState_JOB_STATE_CANCELLED, 0, 1},
		{"timed-out", messages.JobState_JOB_STATE_TIMED_OUT, 0, 6},
	} {
		f.finish("j1", c.phase, c.state, c.code, "the outcome")
		cli(f.address, "wait", "j").wants(t, c.want, "", "job j1 "+c.phase+": the outcome\n")
	}
}

func TestWaitForMany(t *testing.T) {
	f := startFake(t)
	f.finish("j1", "succeeded", messages.JobState_JOB_STATE_SUCCEEDED, 0, "")
	f.finish("j2", "failed", messages.JobState_JOB_STATE_FAILED, 3, "")
	f.finish("j3", "failed", messages.JobState_JOB_STATE_FAILED, 4, "")
	cli(f.address, "wait", "j1", "j2", "j3").wants(t, 3, "", "job j3 failed")
	cli(f.address, "wait", "j1", "jx").wants(t, exit.NotFound, "", `unknown job "jx"`)
}

// TestWaitGoesOn checks that `wait` continues after a lost scheduler until the job ends.
func TestWaitGoesOn(t *testing.T) {
	f := startFake(t)
	f.put(job("j1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.breaks = 2
	done := make(chan result, 1)
	go func() { done <- cli(f.address, "wait", "j1") }()
	await(t, "a watch that holds", func() bool { return len(told[*messages.Watch](f)) >= 3 })
	f.put(job("j1", "running", messages.JobState_JOB_STATE_ACTIVE))
	f.finish("j1", "failed", messages.JobState_JOB_STATE_FAILED, 9, "rank 0 failed")
	r := <-done
	r.wants(t, 9, "", "this scheduler is going away; waiting for the scheduler to return")
	if !strings.Contains(r.err, "j1 running") || strings.Count(r.err, "waiting for the scheduler") != 1 {
		t.Errorf("%s", r.err)
	}
}

// TestReasonsAreFollowed checks that `wait` shows why a job waits, and each change of the reason.
func TestReasonsAreFollowed(t *testing.T) {
	f := startFake(t)
	j := job("j1", "queued", messages.JobState_JOB_STATE_QUEUED)
	j.Group, j.Reason = 7, "needs 8 GPUs; 0 are free"
	f.put(j)
	done := make(chan result, 2)
	var seen lines
	go func() { done <- cli(f.address, "wait", "j1") }()
	go func() {
		run([]string{"synapse-cli", "watch", "j1"}, strings.NewReader(""), &seen, &lines{}, func(name string) (string, bool) {
			return f.address, name == "SYNAPSE_SERVER"
		})
	}()
	await(t, "both watches", func() bool { return len(told[*messages.Watch](f)) == 2 })
	f.regroup(9, "others wait too")
	f.regroup(7, "needs 8 GPUs; 5 are free")
	f.regroup(7, "needs 8 GPUs; 5 are free")
	const told = "job j1 queued: needs 8 GPUs; 5 are free\n"
	await(t, "the new reason", func() bool { return strings.Contains(seen.String(), told) })
	f.finish("j1", "succeeded", messages.JobState_JOB_STATE_SUCCEEDED, 0, "")
	r := <-done
	if r.code != 0 || strings.Count(r.err, "j1 queued: needs 8 GPUs; 5 are free\n") != 1 ||
		!strings.Contains(r.err, "0 are free") {
		t.Errorf("%d: %s", r.code, r.err)
	}
	if s := seen.String(); strings.Count(s, told) != 1 || strings.Contains(r.err+s, "others") {
		t.Errorf("%s", s)
	}
}

func TestWaitTimesOut(t *testing.T) {
	f := startFake(t)
	f.put(job("j1", "queued", messages.JobState_JOB_STATE_QUEUED))
	cli(f.address, "wait", "j1", "--timeout", "150ms", "-q").wants(t, exit.TimedOut,
		"", "job j1 has not ended in time\nhint: run `synapse-cli explain j1`")
}

func TestSubmitAndWait(t *testing.T) {
	f := startFake(t)
	done := make(chan result, 1)
	go func() { done <- cliWith(f.address, jobYAML, nil, "submit", "-", "--wait", "-q") }()
	await(t, "the wait", func() bool { return len(told[*messages.Watch](f)) > 0 })
	f.finish("jnew1", "failed", messages.JobState_JOB_STATE_FAILED, 42, "rank 1 on n1 exited with code 42")
	r := <-done
	r.wants(t, 42, "jnew1\n", "job jnew1 failed: rank 1 on n1 exited with code 42\n")
}

// TestInterruptedWait checks that an interrupt of a wait says that the job continues, and how to cancel it.
func TestInterruptedWait(t *testing.T) {
	f := startFake(t)
	done := make(chan result, 1)
	go func() { done <- cliWith(f.address, jobYAML, nil, "submit", "-", "--wait", "-q") }()
	await(t, "the wait", func() bool { return len(told[*messages.Watch](f)) > 0 })
	interrupt(t)
	r := <-done
	r.wants(t, exit.Interrupted, "jnew1\n", "job jnew1 continues; `synapse-cli cancel jnew1` stops it\n")
	if sent := told[*messages.Cancel](f); len(sent) > 0 {
		t.Errorf("the job was cancelled: %v", sent)
	}
}

func TestAttach(t *testing.T) {
	f := startFake(t)
	f.logs = []*api.LogPart{{Data: []byte("out\n")}, {Stderr: true, Data: []byte("to stderr\n")}}
	done := make(chan result, 1)
	go func() { done <- cliWith(f.address, jobYAML, nil, "submit", "-", "--attach", "-q") }()
	await(t, "the output", func() bool { return len(told[*api.ReadLogs](f)) > 0 && len(told[*messages.Watch](f)) > 0 })
	f.finish("jnew1", "succeeded", messages.JobState_JOB_STATE_SUCCEEDED, 0, "")
	r := <-done
	r.wants(t, 0, "jnew1\nout\n", "to stderr\n")
}

// TestAttachedReaderLeaves checks that `submit --attach | head` exits with 0 and does not affect the job.
func TestAttachedReaderLeaves(t *testing.T) {
	f := startFake(t)
	f.logs = []*api.LogPart{{Data: []byte("a\n")}, {Data: []byte("b\n")}}
	var errs lines
	code := run([]string{"synapse-cli", "submit", "-", "--attach"}, strings.NewReader(jobYAML), &leaving{after: 2}, &errs,
		func(name string) (string, bool) {
			return f.address, name == "SYNAPSE_SERVER"
		})
	if code != 0 || len(told[*messages.Cancel](f)) > 0 {
		t.Errorf("%d: %s", code, &errs)
	}
}

// interrupt sends SIGINT to this process, in which the tested program runs.
func interrupt(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
}

// attached starts an attached submit and waits until it follows the job. chance is the time for a second interrupt.
// Signals within same count as one interrupt.
func attached(t *testing.T, f *fake, chance, same time.Duration) (errs *lines, done chan int) {
	t.Helper()
	var out lines
	errs, done = &lines{}, make(chan int, 1)
	a := newApp(strings.NewReader(jobYAML), &out, errs, func(name string) (string, bool) {
		return f.address, name == "SYNAPSE_SERVER"
	})
	a.chance, a.same = chance, same
	go func() { done <- a.execute([]string{"synapse-cli", "submit", "-", "--attach"}) }()
	await(t, "the job to be followed", func() bool { return strings.Contains(errs.String(), "jnew1 queued") })
	return errs, done
}

func TestOneInterruptDetaches(t *testing.T) {
	f := startFake(t)
	errs, done := attached(t, f, secondChance, secondChance*3/4) // a busy host may be late
	interrupt(t)
	time.Sleep(sameInterrupt / 10) // the same interrupt, forwarded by another program
	interrupt(t)
	if code := <-done; code != exit.Interrupted || !strings.Contains(errs.String(), "job jnew1 queued\n") ||
		!strings.Contains(errs.String(), "detached from job jnew1") {
		t.Errorf("%d: %s", code, errs)
	}
	if sent := told[*messages.Cancel](f); len(sent) > 0 {
		t.Errorf("the job was cancelled: %v", sent)
	}
}

func TestTwoInterruptsCancel(t *testing.T) {
	f := startFake(t)
	f.onCancel = func(id string) {
		f.finish(id, "cancelled", messages.JobState_JOB_STATE_CANCELLED, 0, "cancelled: interrupted")
	}
	errs, done := attached(t, f, 30*time.Second, sameInterrupt/10) // the second one may be late
	interrupt(t)
	await(t, "the second chance", func() bool { return strings.Contains(errs.String(), "Ctrl-C again to cancel") })
	time.Sleep(2 * sameInterrupt)
	interrupt(t)
	if code := <-done; code != 1 || !strings.Contains(errs.String(), "job jnew1 cancelled: interrupted\n") {
		t.Errorf("%d: %s", code, errs)
	}
	if sent := told[*messages.Cancel](f); len(sent) != 1 || sent[0].GetJob() != "jnew1" {
		t.Errorf("%v", sent)
	}
}

func TestEvents(t *testing.T) {
	f := startFake(t)
	cli(f.address, "events").wants(t, 0, "", "")
	f.put(job("j1", "queued", messages.JobState_JOB_STATE_QUEUED))
	f.put(job("j2", "queued", messages.JobState_JOB_STATE_QUEUED))
	r := cli(f.address, "events")
	r.wants(t, 0, "2027-01-15T08:00:00Z  job j1 queued\n2027-01-15T08:00:00Z  job j2 queued\n", "")
	r = cli(f.address, "events", "j2", "n9", "-o", "json")
	if strings.Contains(r.out, "j1") || !strings.Contains(r.out, `"job":"j2"`) {
		t.Errorf("%s", r.out)
	}
}

// TestWatch checks that `watch` ends when its reader closes the pipe.
func TestWatch(t *testing.T) {
	for _, args := range []string{"watch j1", "get jobs -w --no-headers"} {
		f := startFake(t)
		f.put(job("j1", "queued", messages.JobState_JOB_STATE_QUEUED))
		var errs lines
		out := &leaving{after: 3}
		done := make(chan int, 1)
		go func() {
			done <- run(append([]string{"synapse-cli"}, strings.Fields(args)...), strings.NewReader(""), out, &errs,
				func(name string) (string, bool) {
					return f.address, name == "SYNAPSE_SERVER"
				})
		}()
		await(t, "what there is", func() bool { return strings.Contains(out.String(), "queued") })
		f.put(job("j1", "reserving", messages.JobState_JOB_STATE_QUEUED))
		await(t, "a change", func() bool { return strings.Contains(out.String(), "reserving") })
		f.put(job("j1", "starting", messages.JobState_JOB_STATE_ACTIVE))
		f.put(job("j1", "running", messages.JobState_JOB_STATE_ACTIVE))
		if code := <-done; code != 0 || strings.Count(out.String(), "\n") != 3 || strings.Contains(out.String(), "running") {
			t.Errorf("%v ends with %d: %s%s", args, code, out, &errs)
		}
	}
}

// leaving accepts a number of writes and then fails.
type leaving struct {
	lines
	after int
}

func (l *leaving) Write(p []byte) (int, error) {
	if l.after--; l.after < 0 {
		return 0, syscall.EPIPE
	}
	return l.lines.Write(p)
}
