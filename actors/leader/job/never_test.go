package job

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors/leader/leadertest"
	"github.com/yi-json/synapse/messages"
)

// TestNoSecondRun checks a job that allows no second run. The job ends with an attempt that may have run, whatever
// ended the attempt. An attempt without a started task is followed by another.
func TestNoSecondRun(t *testing.T) {
	exit := func(kind messages.ExitKind) *messages.Exit { return &messages.Exit{Kind: kind} }
	never := exit(messages.ExitKind_EXIT_KIND_NEVER_STARTED)
	for name, c := range map[string]struct {
		cause   messages.Cause
		started int64
		exits   [2]*messages.Exit
		waits   bool
	}{
		"a node of a running gang is lost": {messages.Cause_CAUSE_MACHINE_LOST, 5, [2]*messages.Exit{}, false},
		"a running gang is preempted":      {messages.Cause_CAUSE_PREEMPTED, 5, [2]*messages.Exit{never, never}, false},
		"nothing is known of one task": {messages.Cause_CAUSE_MACHINE_LOST, 0,
			[2]*messages.Exit{never, nil}, false},
		"one task was launched and one was not": {messages.Cause_CAUSE_LAUNCH_FAILED, 0,
			[2]*messages.Exit{exit(messages.ExitKind_EXIT_KIND_LAUNCH_FAILED), exit(messages.ExitKind_EXIT_KIND_EXITED)}, false},
		"a reboot may have ended a task": {messages.Cause_CAUSE_REBOOTED, 0,
			[2]*messages.Exit{exit(messages.ExitKind_EXIT_KIND_REBOOTED), never}, false},
		"no task began": {messages.Cause_CAUSE_MACHINE_LOST, 0, [2]*messages.Exit{never, never}, true},
		"an image could not be prepared": {messages.Cause_CAUSE_PREPARE_FAILED, 0,
			[2]*messages.Exit{exit(messages.ExitKind_EXIT_KIND_PREPARE_FAILED), never}, true},
	} { //order: each case by itself
		for _, allowed := range []bool{true, false} {
			spec := leadertest.OneGPU()
			spec.Restart = &messages.RestartSpec{Never: !allowed}
			j, att := countedJob(spec)
			att.StartedUnixMs, att.End = c.started, &messages.End{Cause: c.cause, Detail: "why"}
			att.Places[0].Exit, att.Places[1].Exit = c.exits[0], c.exits[1]
			rec := j.rec
			j.closeAttempt(rec, att)
			ended := rec.State == messages.JobState_JOB_STATE_FAILED
			if waits := allowed || c.waits; ended == waits || ended && !strings.Contains(rec.Outcome, "no second run") {
				t.Errorf("%s, a second run is allowed: %v: the job is %v: %s", name, allowed, rec.State, rec.Outcome)
			}
		}
	}
}

// TestNoSecondRunByRequeue checks that a requeue does not stop a run that no other run may follow.
func TestNoSecondRunByRequeue(t *testing.T) {
	for _, allowed := range []bool{true, false} {
		spec := leadertest.OneGPU()
		spec.Restart = &messages.RestartSpec{Never: !allowed}
		j, att := countedJob(spec)
		j.rec.Runs, att.Run, att.StartedUnixMs, j.att, j.writing = 1, 1, 5, att, true
		var said []leadertest.Letter
		j.onRequeue(&leadertest.Context{Said: &said},
			&messages.Requeue{Job: "j1", Principal: &messages.Principal{Name: "ann"}})
		refused := false
		for _, l := range said {
			reply, is := l.Message.(*messages.RequeueReply)
			refused = refused || is && reply.Outcome.Code == messages.Code_CODE_CONFLICT
		}
		if refused == allowed || (j.end == nil) == allowed {
			t.Errorf("a second run is allowed: %v: refused %v, ended %v", allowed, refused, j.end)
		}
	}
}
