package main

import (
	"context"
	"testing"

	"github.com/yi-json/synapse/messages"
)

func (f *fake) Update(_ context.Context, q *messages.Update) (*messages.UpdateReply, error) {
	return &messages.UpdateReply{
		Outcome: ok(), Job: q.GetJob(), Priority: q.GetPriority(), TimeLimitMs: q.GetTimeLimitMs(),
		TimeIsUp:    q.GetTimeLimitMs() == 1000,
		BeginUnixMs: q.GetBeginUnixMs(), DeadlineUnixMs: q.GetDeadlineUnixMs(),
	}, f.heard(q)
}

// TestUpdate checks that the output contains the scheduler's values, and that only given flags are sent.
func TestUpdate(t *testing.T) {
	f := startFake(t)
	f.put(job("jaa1", "running", messages.JobState_JOB_STATE_ACTIVE))
	f.put(job("jbb1", "queued", messages.JobState_JOB_STATE_QUEUED))
	cli(f.address, "update", "jaa", "-t", "12:00:00", "-r", "slow").wants(t, 0, "Job jaa1 has time limit 12h\n", "")
	cli(f.address, "update", "jaa", "--time-limit", "1s", "--priority", "-3").wants(t, 0,
		"Job jaa1 has priority -3 and time limit 1s, which the current attempt has exceeded: the job is being ended\n", "")
	cli(f.address, "update", "jaa", "--time-limit", "0").wants(t, 0, "Job jaa1 has no time limit\n", "")
	cli(f.address, "priority", "jaa", "jbb", "7").wants(t, 0, "Job jaa1 has priority 7\nJob jbb1 has priority 7\n", "")
	cli(f.address, "priority", "-l", "team=nlp", "--", "-7").wants(t, 0,
		"Job jaa1 has priority -7\nJob jbb1 has priority -7\n", "")
	sent := told[*messages.Update](f)
	if len(sent) != 7 || sent[0].GetSetPriority() || sent[0].GetReason() != "slow" || !sent[1].GetSetPriority() ||
		sent[1].GetPriority() != -3 ||
		!sent[2].GetSetTimeLimit() || sent[2].GetTimeLimitMs() != 0 || sent[6].GetSetTimeLimit() ||
		sent[6].GetPriority() != -7 {
		t.Errorf("%v", sent)
	}
	cli(f.address, "update", "jbb", "--begin", "2026-11-24T08:00:00Z", "--priority", "2").wants(t, 0,
		"Job jbb1 has priority 2 and begin 2026-11-24T08:00:00Z\n", "")
	cli(f.address, "update", "jbb", "-b", "now").wants(t, 0, "Job jbb1 has no begin\n", "")
	cli(f.address, "update", "jbb", "-b", "noon").wants(t, 2, "", "\"noon\" is not a time of day")
	if last := told[*messages.Update](f)[8]; !last.GetSetBegin() || last.GetBeginUnixMs() != 0 {
		t.Errorf("%v", last)
	}
	cli(f.address, "update", "jbb", "--deadline", "2026-11-24T08:00:00Z", "-t", "1h").wants(t, 0,
		"Job jbb1 has time limit 1h and deadline 2026-11-24T08:00:00Z\n", "")
	cli(f.address, "update", "jbb", "--deadline", "none").wants(t, 0, "Job jbb1 has no deadline\n", "")
	cli(f.address, "slurm", "scontrol", "update", "jobid=jbb1", "deadline=2026-11-24T08:00:00").wants(t, 0, "", "")
	cli(f.address, "slurm", "scontrol", "update", "jobid=jbb1", "deadline=noon").wants(t, 1, "", "Deadline=noon")
	last := told[*messages.Update](f)
	if n := len(last); !last[n-1].GetSetDeadline() || last[n-1].GetDeadlineUnixMs() == 0 || last[n-1].GetSetBegin() ||
		!last[n-2].GetSetDeadline() || last[n-2].GetDeadlineUnixMs() != 0 {
		t.Errorf("%v", last)
	}
	cli(f.address, "suspend", "jaa").wants(t, 2, "", "would keep its GPU memory")
}
