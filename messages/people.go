package messages

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/topology"
)

// This file formats values that depend on several fields of a job or a node, so that all clients show the same text.

// Asked returns the amount of one resource that a job requests in total.
func Asked(spec *JobSpec, of func(*Resources) int64) int64 {
	if t := spec.GetGang().GetTotal(); t != nil {
		return of(t)
	}
	return of(spec.GetEach()) * int64(spec.GetGang().GetReplicasMin())
}

// TasksOf returns the number of tasks of a job, as text. It returns "any" for a total that has not been placed, because
// the split is not known before.
func TasksOf(j *JobStatus) string {
	if n := max(len(j.GetAttempt().GetPlaces()), int(j.GetTasks())); n > 0 {
		return strconv.Itoa(n)
	}
	if j.GetRecord().GetSpec().GetGang().GetTotal() != nil {
		return "any"
	}
	return strconv.Itoa(int(j.GetRecord().GetSpec().GetGang().GetReplicasMin()))
}

// RanMs returns the run time of a job's tasks over all attempts, or -1 if none has run. The record of a job without a
// running attempt has the complete sum, unless an older release wrote the record.
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

// WhyOf returns the reason why a job does not run, or its result. A cancel without a reason names the caller.
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

// StartFailure returns why the last attempt of a waiting job never started, for example because of its image, user,
// mount or node. It returns "" if the last attempt ran, or if the job does not wait.
func StartFailure(j *JobStatus) string {
	code, detail, on := startFailure(j)
	if code == WaitNone {
		return ""
	}
	return code.String() + ": " + detail + on
}

// FailedStart returns the reason of a waiting job whose last attempt never started. The text again follows the name of
// the node. It returns the zero value if the last attempt ran, or if the job does not wait.
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
		detail = why // removes the prefix "rank N: "
	}
	if end.GetNode() != "" {
		on = " on " + end.GetNode()
	}
	return code, strings.Join(strings.Fields(detail), " "), on
}

// Doing returns the user and the reason of an action, as text.
func Doing(d *Deed) string {
	s := cmp.Or(d.GetBy().GetName(), "-")
	if d.GetReason() != "" {
		s += ": " + d.GetReason()
	}
	return s
}

// ConditionOf returns the state of a node in one word. For a reachable node without new work, the word is the cause.
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
	case strings.HasPrefix(n.GetClosed(), "backed off"),
		strings.HasPrefix(n.GetClosed(), "benched"): // the word of earlier leaders
		return "benched"
	}
	return "closed"
}

// Word returns the name of an enum value without the common prefix, in lower case: CAUSE_MACHINE_LOST becomes "machine
// lost".
func Word(name, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", " ")
}

// Span formats a duration in the shortest usual form.
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

// Soon formats a time. Within the next hour it includes the seconds.
func Soon(ms, nowMs int64) string {
	if ms-nowMs >= time.Hour.Milliseconds() {
		return Moment(ms, nowMs)
	}
	return time.UnixMilli(ms).UTC().Format("15:04:05Z")
}

// WholeMinute rounds a time of day up to a minute. A bound that is written to the minute then still holds.
func WholeMinute(ms int64) int64 {
	minute := time.Minute.Milliseconds()
	return (ms + minute - 1) / minute * minute
}

// Moment formats a future time. It includes the day if that is not today.
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
