package slurm

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file converts a job into Slurm's terms: its number, state, reason and amounts.

// Entry is a job in the form that Slurm's programs show.
type Entry struct {
	ID, ArrayID, Element, Job           string // Job is Synapse's ID
	Name, User, Partition, Account, QOS string
	Comment, WCKey                      string
	State, Reason, Text                 string   // Text is Synapse's complete reason
	Machines, Kept                      []string // Kept lists the reserved nodes
	Nodes, Tasks, CPUs, GPUs            int64
	GPUType, Features                   string
	Memory, Peak                        int64
	CPUMs                               int64 // CPU time of all attempts; 0: unknown
	SubmitMs, StartMs, EndMs, LimitMs   int64
	ElapsedMs, ForetoldMs, WaitedMs     int64
	DeadlineMs                          int64 // 0: none
	OverdueMs                           int64 // time since its expected start
	Disk                                int64 // per task
	Script, Never                       bool  // it runs a script; it never runs twice
	Priority, Restarts, Exit, Signal    int32
	Dependency, Workdir, Command        string
	Cause                               string // why its last attempt never ran; empty: it ran, or there was none
	Requested, Excluded                 []string
}

// short maps the states of Slurm to their short forms.
var short = map[string]string{
	"PENDING": "PD", "RUNNING": "R", "CONFIGURING": "CF", "COMPLETING": "CG", "COMPLETED": "CD", "FAILED": "F",
	"CANCELLED": "CA",
	"DEADLINE":  "DL",
	"TIMEOUT":   "TO", "NODE_FAIL": "NF", "PREEMPTED": "PR", "OUT_OF_MEMORY": "OOM", "SPECIAL_EXIT": "SE",
}

// Short returns the short form of a state.
func Short(state string) string { return short[state] }

// Long returns the state for a word in either form, and false for an unknown word.
func Long(word string) (string, bool) {
	word = strings.ToUpper(word)
	for long, letters := range short { //order: each state is unique
		if word == long || word == letters {
			return long, true
		}
	}
	return "", false
}

// states maps the phases of a job to Slurm's states.
var states = map[string]string{
	messages.PhaseQueued: "PENDING", messages.PhaseHeld: "PENDING", messages.PhaseReserving: "PENDING",
	messages.PhaseDeciding: "PENDING", messages.PhaseStarting: "CONFIGURING", messages.PhaseRunning: "RUNNING",
	messages.PhaseStopping: "COMPLETING", messages.PhaseClosing: "COMPLETING", messages.PhaseDamaged: "SPECIAL_EXIT",
	messages.PhaseSucceeded: "COMPLETED", messages.PhaseFailed: "FAILED", messages.PhaseCancelled: "CANCELLED",
	messages.PhaseTimedOut: "TIMEOUT",
}

// Number returns Slurm's ID of a job: a number, or for an element the array's number and the index.
func Number(id string) string {
	if array, index, ok := messages.ArrayOf(id); ok {
		return messages.NumericID(array) + "_" + strconv.Itoa(int(index))
	}
	return messages.NumericID(id)
}

// Of returns the Entry of a job.
func Of(j *messages.JobStatus, nowMs int64) *Entry {
	r := j.GetRecord()
	spec, a := r.GetSpec(), j.GetAttempt()
	e := &Entry{
		ID: Number(r.GetId()), ArrayID: "N/A", Element: "N/A", Job: r.GetId(), Name: spec.Called(), User: r.Whose(),
		Partition: spec.GetQueue(), State: states[j.GetPhase()], Text: messages.WhyOf(j),
		GPUType: spec.GetGpuType(), SubmitMs: r.GetSubmittedUnixMs(), EndMs: r.GetFinishedUnixMs(),
		LimitMs:  spec.GetTimeLimitMs(),
		Priority: spec.GetPriority(), Restarts: max(r.GetRuns()-1, 0), Exit: r.GetExitCode(), Workdir: spec.GetWorkdir(),
		Requested: spec.GetNodes(), Excluded: spec.GetExclude(), Command: strings.Join(spec.GetCommand(), " "),
		GPUs:   messages.Asked(spec, (*messages.Resources).GetMilliGpu) / 1000,
		CPUs:   (messages.Asked(spec, (*messages.Resources).GetMilliCpu) + 999) / 1000,
		Memory: messages.Asked(spec, (*messages.Resources).GetMemoryBytes), ForetoldMs: j.GetProspect().GetAtUnixMs(),
	}
	e.kept(spec.GetLabels())
	e.Never = spec.GetRestart().GetNever()
	e.Kept = j.GetProspect().GetKept()
	e.Workdir = cmp.Or(e.Workdir, spec.GetSubmitDir())
	e.Disk, e.DeadlineMs = spec.GetDiskBytes(), spec.GetDeadlineUnixMs()
	if messages.MissedDeadline(r.GetState(), r.GetCancel(), r.GetOutcome()) {
		e.State = "DEADLINE"
	}
	if s := spec.GetScript(); s != nil {
		e.Command, e.Script = s.GetName(), true
	}
	e.Tasks, _ = strconv.ParseInt(messages.TasksOf(j), 10, 64)
	e.Nodes = max(e.Tasks, 1)
	if !spec.GetGang().GetApart() && spec.GetGang().GetTotal() == nil {
		e.Nodes = 1 // at least; the number is known after the placement
	}
	e.place(j)
	if e.Peak = j.GetUse().GetPeakMemoryBytes(); r.GetRuns() <= 1 {
		e.CPUMs = j.GetUse().GetCpuMs()
	}
	if ran := messages.RanMs(j, nowMs); ran > 0 {
		e.ElapsedMs = ran
	}
	if a.GetEnd() == nil || r.GetState().Terminal() {
		e.StartMs = a.GetStartedUnixMs()
	}
	e.WaitedMs = waited(e, nowMs)
	e.numbered(j)
	e.Reason, e.Cause = reason(j), messages.StartFailure(j)
	e.OverdueMs = j.GetProspect().OverdueMs(nowMs)
	for _, s := range spec.GetNodeSelector() {
		e.Features = strings.TrimPrefix(e.Features+"&"+s.GetKey()+"="+s.GetValue(), "&")
	}
	for _, after := range spec.GetAfter() {
		e.Dependency = strings.TrimPrefix(e.Dependency+","+dependency(after), ",")
	}
	e.ended(a.GetEnd(), a.GetPlaces())
	return visible(e)
}

// waited returns the time from the submit to the start.
func waited(e *Entry, nowMs int64) int64 {
	return max(cmp.Or(e.StartMs, e.EndMs, nowMs)-e.SubmitMs, 0)
}

// place sets the nodes of a job, if they are known.
func (e *Entry) place(j *messages.JobStatus) {
	if j.GetRecord().GetState() == messages.JobState_JOB_STATE_QUEUED {
		return
	}
	seen := map[string]bool{}
	for _, p := range j.GetAttempt().GetPlaces() {
		if !seen[p.GetNode()] {
			seen[p.GetNode()] = true
			e.Machines = append(e.Machines, p.GetNode())
		}
	}
	if n := len(e.Machines); n > 0 {
		e.Nodes = int64(n)
	}
}

// numbered sets the array and the index of an element.
func (e *Entry) numbered(j *messages.JobStatus) {
	r := j.GetRecord()
	if array, index, ok := messages.ArrayOf(r.GetId()); ok && r.GetSpec().GetElement() != nil {
		e.ArrayID, e.Element = messages.NumericID(array), strconv.Itoa(int(index))
	}
	if r.GetSpec().GetArray() != nil {
		e.ArrayID, e.Element = messages.NumericID(r.GetId()), jobfile.FormatArray(r.GetSpec().GetArray())
		if !r.GetState().Terminal() {
			e.ID = e.ArrayID + "_[" + e.Element + "]"
			e.State = "PENDING"
		}
	}
}

// ended sets the states for causes that Slurm distinguishes.
func (e *Entry) ended(end *messages.End, places []*messages.Place) {
	if e.State != "FAILED" {
		return
	}
	switch end.GetCause() {
	case messages.Cause_CAUSE_MACHINE_LOST, messages.Cause_CAUSE_REBOOTED, messages.Cause_CAUSE_REMOVED:
		e.State = "NODE_FAIL"
	case messages.Cause_CAUSE_PREEMPTED:
		e.State = "PREEMPTED"
	}
	for _, p := range places {
		if p.GetRank() == end.GetRank() {
			e.Signal = p.GetExit().GetSignal()
		}
	}
	if e.Exit > 128 && e.Signal == e.Exit-128 {
		e.Exit = 0
	}
}

// kept sets the fields that Slurm's options keep as labels of the job.
func (e *Entry) kept(labels []*messages.Label) {
	e.Account, e.Comment, e.WCKey = label(labels, "account"), label(labels, "comment"), label(labels, "wckey")
	e.QOS = cmp.Or(label(labels, "qos"), "normal")
}

func label(labels []*messages.Label, key string) string {
	for _, l := range labels {
		if l.GetKey() == key {
			return l.GetValue()
		}
	}
	return ""
}

// reason returns Slurm's word for why a job does not run. scontrol also shows Synapse's complete reason.
func reason(j *messages.JobStatus) string {
	r := j.GetRecord()
	if !messages.Waits(j.GetPhase()) && j.GetCounts().GetWaiting() == 0 {
		return "None"
	}
	hold := r.GetHold()
	if r.GetSpec().GetArray() != nil {
		hold = r.GetArray().GetHold()
	}
	code := messages.WaitCodeOf(j.GetReasonCode())
	switch {
	case hold != nil && hold.GetBy().GetName() == r.Whose():
		return "JobHeldUser"
	case hold != nil:
		return "JobHeldAdmin"
	case code == messages.WaitNone: // a running array, or an older server
		return "Resources"
	case j.GetProspect().GetAhead() > 0 && messages.WaitReasons[code].Slurm == "Resources":
		return "Priority"
	}
	return messages.WaitReasons[code].Slurm
}

// launchFailure is Slurm's word for a job that could not be prepared or launched.
var launchFailure = messages.WaitReasons[messages.WaitLaunch].Slurm

// Past returns the Entry of a finished job in the history.
func Past(p *messages.PastJob) *Entry {
	e := &Entry{
		ID: Number(p.GetId()), ArrayID: "N/A", Element: "N/A", Job: p.GetId(), Name: p.Called(), User: p.GetOwner(),
		Partition: p.GetQueue(), State: states[messages.EndPhase(p.GetState())], Reason: "None",
		Text:     p.GetReason(),
		SubmitMs: p.GetSubmittedUnixMs(), StartMs: p.GetStartedUnixMs(), EndMs: p.GetFinishedUnixMs(),
		LimitMs: p.GetTimeLimitMs(), Priority: p.GetPriority(), Restarts: max(p.GetRuns()-1, 0), Exit: p.GetExitCode(),
	}
	e.kept(p.GetLabels())
	if messages.MissedDeadline(p.GetState(), p.GetCancel(), p.GetReason()) {
		e.State = "DEADLINE"
	}
	n := int64(p.GetGang().GetReplicasMin())
	asked := p.GetEach()
	if total := p.GetGang().GetTotal(); total != nil {
		asked, n = total, 1
	}
	e.CPUs, e.GPUs = (n*asked.GetMilliCpu()+999)/1000, n*asked.GetMilliGpu()/1000
	e.Memory, e.Tasks, e.Nodes = n*asked.GetMemoryBytes(), n, 1
	unknown := false
	for _, a := range p.GetAttempts() {
		if a.GetStartedUnixMs() > 0 && a.GetEndedUnixMs() > a.GetStartedUnixMs() {
			e.ElapsedMs += a.GetEndedUnixMs() - a.GetStartedUnixMs()
			unknown = unknown || a.GetCpuMs() == 0
		}
		e.CPUMs += a.GetCpuMs()
		e.Peak = max(e.Peak, a.GetPeakMemoryBytes())
		e.Machines, e.Nodes, e.Tasks = a.GetNodes(), int64(len(a.GetNodes())), int64(a.GetMembers())
		end := &messages.End{Cause: a.GetCause(), Rank: a.GetFailedRank()}
		e.ended(end, nil)
		if e.State == "FAILED" {
			e.Signal = a.GetSignal()
		}
	}
	if unknown {
		e.CPUMs = 0
	}
	e.WaitedMs = waited(e, 0)
	if array, index, ok := messages.ArrayOf(p.GetId()); ok {
		e.ArrayID, e.Element = messages.NumericID(array), strconv.Itoa(int(index))
	}
	if e.Signal > 0 && e.Exit == 128+e.Signal {
		e.Exit = 0
	}
	return visible(e)
}
