package messages

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file owns what people read of a job or a machine that follows from several of its fields, so that each place
// that shows it says the same.

// Asked is how much of something a job asks for in all.
func Asked(spec *JobSpec, of func(*Resources) int64) int64 {
	if t := spec.GetGang().GetTotal(); t != nil {
		return of(t)
	}
	return of(spec.GetEach()) * int64(spec.GetGang().GetReplicasMin())
}

// TasksOf is how many tasks a job has. How a total is split is known only once it is placed.
func TasksOf(j *JobStatus) string {
	if n := max(len(j.GetAttempt().GetPlaces()), int(j.GetTasks())); n > 0 {
		return strconv.Itoa(n)
	}
	if j.GetRecord().GetSpec().GetGang().GetTotal() != nil {
		return "any"
	}
	return strconv.Itoa(int(j.GetRecord().GetSpec().GetGang().GetReplicasMin()))
}

// RanMs is for how long a job's tasks have run, over all attempts: what a user was given, and not how long the latest
// try of it lasted. It is −1 where nothing has run yet. A job that is between attempts, or over, has all of them in its
// record, unless an earlier release wrote that.
func RanMs(j *JobStatus, nowMs int64) int64 {
	r, a := j.GetRecord(), j.GetAttempt()
	if a.GetStartedUnixMs() == 0 || r.GetRanMs() > 0 && r.GetState() != JobState_JOB_STATE_ACTIVE {
		if r.GetRanMs() == 0 {
			return -1
		}
		return r.GetRanMs()
	}
	until := nowMs
	if end := a.GetEnd(); end != nil {
		until = end.GetAtUnixMs()
	}
	return r.GetRanMs() + max(until-a.GetStartedUnixMs(), 0)
}

// WhyOf is why a job does not run, or how it ended. A cancel that gave no reason still has somebody who asked for it.
func WhyOf(j *JobStatus) string {
	r := j.GetRecord()
	text := j.GetReason()
	switch {
	case text != "":
	case r.GetHold() != nil && !r.GetState().Terminal():
		return HeldBy(r.GetHold().GetBy().GetName(), r.GetHold().GetReason()).Text
	default:
		text = r.GetOutcome()
	}
	text = strings.TrimSuffix(strings.TrimSpace(text), ":")
	if by := r.GetCancel().GetBy().GetName(); r.GetState() == JobState_JOB_STATE_CANCELLED &&
		text == j.GetPhase() && by != "" {
		return text + " by " + by
	}
	return text
}

// StartFailure says why the last attempt of a waiting job never ran: its image, its user, a mount or the node. It is
// empty for a job whose last attempt ran, and for one that does not wait.
func StartFailure(j *JobStatus) string {
	code, detail, on := startFailure(j)
	if code == WaitNone {
		return ""
	}
	return code.String() + ": " + detail + on
}

// FailedStart is the reason of a waiting job whose last attempt never ran, with how it is tried again behind the node;
// the zero value: the last attempt ran, or the job does not wait.
func FailedStart(j *JobStatus, again string) Reason {
	code, detail, on := startFailure(j)
	if code == WaitNone {
		return Reason{}
	}
	return code.Around(detail, topology.Cut(on, 4+nameColumns)+again)
}

func startFailure(j *JobStatus) (code WaitCode, detail, on string) {
	end := j.GetAttempt().GetEnd()
	code = map[Cause]WaitCode{
		Cause_CAUSE_PREPARE_FAILED: WaitPrepare, Cause_CAUSE_PREPARE_TIMEOUT: WaitPrepare,
		Cause_CAUSE_LAUNCH_FAILED: WaitLaunch,
	}[end.GetCause()]
	if code == WaitNone || !Waits(j.GetPhase()) || j.GetRecord().GetState() != JobState_JOB_STATE_QUEUED {
		return WaitNone, "", ""
	}
	detail = end.GetDetail()
	if _, why, found := strings.Cut(detail, ": "); found && strings.HasPrefix(detail, "rank ") {
		detail = why // without which rank it was
	}
	if end.GetNode() != "" {
		on = " on " + end.GetNode()
	}
	return code, strings.Join(strings.Fields(detail), " "), on
}

// Doing says who did something, and why.
func Doing(d *Deed) string {
	s := cmp.Or(d.GetBy().GetName(), "-")
	if d.GetReason() != "" {
		s += ": " + d.GetReason()
	}
	return s
}

// ConditionOf is how a machine is, in one word; of one that is up and closed, by what.
func ConditionOf(n *NodeStatus) string {
	r := n.GetRecord()
	switch {
	case n.GetPhase() != NodeUp || n.GetClosed() == "":
		return n.GetPhase()
	case r.GetDrained() != nil && len(n.GetLedger().GetSlices()) > 0:
		return "draining"
	case r.GetDrained() != nil:
		return "drained"
	case r.GetCordoned() != nil:
		return "cordoned"
	case strings.HasPrefix(n.GetClosed(), "benched"):
		return "benched"
	}
	return "closed"
}

// Word is the word of an enum's value without the prefix that all of them have: MACHINE_LOST of Cause is machine lost.
func Word(name, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", " ")
}

// Span is how long something takes, as short as people say it.
func Span(ms int64) string {
	d := time.Duration(ms) * time.Millisecond
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		if minutes := int(d.Minutes()) % 60; minutes > 0 {
			return fmt.Sprintf("%dh%dm", int(d.Hours()), minutes)
		}
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours())/24)
}

// Soon is a time of day within the next minutes, to the second.
func Soon(ms, nowMs int64) string {
	if ms-nowMs >= time.Hour.Milliseconds() {
		return Moment(ms, nowMs)
	}
	return time.UnixMilli(ms).UTC().Format("15:04:05Z")
}

// Moment is a time of day to come, and the day too where that is not this one.
func Moment(ms, nowMs int64) string {
	at, now := time.UnixMilli(ms).UTC(), time.UnixMilli(nowMs).UTC()
	switch {
	case at.YearDay() == now.YearDay() && at.Year() == now.Year():
		return at.Format("15:04Z")
	case ms-nowMs < 6*24*time.Hour.Milliseconds():
		return at.Format("Mon 15:04Z")
	}
	return at.Format("2006-01-02 15:04Z")
}
