package web

import (
	"cmp"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/verdict"
)

// This file defines what a browser gets of jobs and nodes. Each field is listed here, so that a new field of a
// message is not sent by accident. Commands, environments, scripts and labels of jobs are never sent.

// jobRow holds a job for lists and the map. GPUs are in thousandths, times in milliseconds since 1970.
type jobRow struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	Owner     string `json:"owner"`
	Queue     string `json:"queue,omitempty"`
	Phase     string `json:"phase"`
	Why       string `json:"why,omitempty"`
	GPUs      int64  `json:"gpus"`
	Tasks     string `json:"tasks"`
	Priority  int32  `json:"priority,omitempty"`
	Submitted int64  `json:"submitted"`
	Started   int64  `json:"started,omitempty"`
	Finished  int64  `json:"finished,omitempty"`
	Group     uint64 `json:"group,omitempty"`
	Runs      int32  `json:"runs,omitempty"`
	Over      bool   `json:"over,omitempty"`
	Array     bool   `json:"array,omitempty"` // an array; its elements are counted instead of this row
	Parent    string `json:"parent,omitempty"`
	Limit     int64  `json:"limit,omitempty"`    // time limit of an attempt
	Done      *done  `json:"progress,omitempty"` // nil: nothing was reported
	Use       string `json:"use,omitempty"`      // of its GPUs, such as 87%; empty: not measured
	Revision  uint64 `json:"rev,omitempty"`      // of its record
}

func rowOf(j *messages.JobStatus) jobRow {
	r := j.GetRecord()
	spec := r.GetSpec()
	return jobRow{
		ID: r.GetId(), Name: spec.Called(), Owner: r.GetOwner().GetName(), Queue: spec.GetQueue(), Phase: j.GetPhase(),
		Why: messages.WhyOf(j), GPUs: messages.Asked(spec, (*messages.Resources).GetMilliGpu),
		Tasks: messages.TasksOf(j), Priority: spec.GetPriority(), Submitted: r.GetSubmittedUnixMs(),
		Started: j.GetAttempt().GetStartedUnixMs(), Finished: r.GetFinishedUnixMs(), Group: j.GetGroup(), Runs: r.GetRuns(),
		Over: r.GetState().Terminal(), Array: spec.GetArray() != nil && spec.GetElement() == nil, Revision: r.GetRevision(),
		Parent: spec.GetElement().GetArray(), Limit: spec.GetTimeLimitMs(), Done: doneOf(j.GetProgress()).brief(),
		Use: j.GetUse().GPUWords(),
	}
}

// keepMeasured keeps the progress and the GPU use of a running attempt, because an event about another change of the
// job does not have them.
func (r *jobRow) keepMeasured(before *thing) {
	if before == nil || r.Phase != messages.PhaseRunning {
		return
	}
	if known := before.value.(jobRow); known.Runs == r.Runs {
		if r.Done == nil {
			r.Done = known.Done
		}
		r.Use = cmp.Or(r.Use, known.Use)
	}
}

// PastText returns the JSON that pages show of an event, its key, and whether the thing has ended. The key is empty
// if the event is not recorded. Reasons of waiting jobs change too often to be recorded.
func PastText(e *messages.Event) (key string, text []byte, over bool) {
	switch id := e.GetNode().GetRecord().GetId(); {
	case e.GetJob() != nil:
		r := rowOf(e.GetJob())
		if r.Group, r.Revision = 0, 0; !r.Over {
			r.Why = ""
		}
		return kindJob + "/" + r.ID, textOf(&thing{kind: kindJob, value: r}), r.Over
	case e.GetNode() == nil:
		return "", nil, false
	case e.GetHidden():
		return kindBox + "/" + id, textOf(&thing{kind: kindGone, value: id}), true
	default:
		return kindBox + "/" + id, textOf(&thing{kind: kindBox, value: boxOf(e.GetNode())}), false
	}
}

// box holds a node for the map.
type box struct {
	ID    string   `json:"id"`
	Place []string `json:"place,omitempty"` // coarse to fine
	State string   `json:"state"`
	Phase string   `json:"phase"`
	Why   string   `json:"why,omitempty"`
	Note  string   `json:"note,omitempty"`
	Type  string   `json:"type,omitempty"` // of its GPUs, or of the first
	GPUs  []cell   `json:"gpus,omitempty"`
	GPU   [2]int64 `json:"gpu"` // used, total
	CPU   [2]int64 `json:"cpu"`
	Mem   [2]int64 `json:"mem"`
	Debts int      `json:"debts,omitempty"`
	Jobs  []string `json:"jobs,omitempty"` // with resources on the node
}

// cell holds one GPU.
type cell struct {
	Type  string   `json:"type,omitempty"`  // if it differs from the node's
	Jobs  []string `json:"jobs,omitempty"`  // that use it or a part of it
	Taken int64    `json:"taken,omitempty"` // thousandths that are not free
	Lost  bool     `json:"lost,omitempty"`  // withdrawn: broken or missing
}

func boxOf(n *messages.NodeStatus) box {
	r, l := n.GetRecord(), n.GetLedger()
	b := box{ID: r.GetId(), State: messages.ConditionOf(n), Phase: n.GetPhase(), Why: n.GetClosed(),
		Debts: len(n.GetDebts())}
	for _, level := range r.GetAnnouncement().GetPlace() {
		b.Place = append(b.Place, level.GetValue())
	}
	if r.GetNote() != nil {
		b.Note = messages.Doing(r.GetNote())
	}
	if b.Why == "" {
		b.Why = l.GetTrouble()
	}
	if b.Why == "" {
		b.Why = messages.SuspicionWords(n.GetSuspicion())
	}
	total, free := l.GetTotal(), l.GetFree()
	if total == nil {
		total = r.GetAnnouncement().GetTotal()
		free = total
	}
	b.GPU = [2]int64{total.GetMilliGpu() - free.GetMilliGpu(), total.GetMilliGpu()}
	b.CPU = [2]int64{total.GetMilliCpu() - free.GetMilliCpu(), total.GetMilliCpu()}
	b.Mem = [2]int64{total.GetMemoryBytes() - free.GetMemoryBytes(), total.GetMemoryBytes()}
	for _, s := range l.GetSlices() {
		b.Jobs = append(b.Jobs, s.GetJob())
	}
	if gpus := r.GetAnnouncement().GetGpus(); len(gpus) > 0 {
		b.Type, b.GPUs = gpus[0].GetType(), cellsOf(gpus, l)
	}
	return b
}

// cellsOf returns the GPUs of a node, in the order in which the node reported them.
func cellsOf(gpus []*messages.Gpu, l *messages.LedgerReport) []cell {
	cells := make([]cell, len(gpus))
	at := make(map[string]int, len(gpus))
	for i, g := range gpus {
		cells[i].Taken = 1000
		if g.GetType() != gpus[0].GetType() {
			cells[i].Type = g.GetType()
		}
		at[g.GetId()] = i
	}
	of := func(id string) *cell {
		if i, ok := at[id]; ok {
			return &cells[i]
		}
		return &cell{} // the report is inconsistent, so nothing is shown
	}
	for _, share := range l.GetFreeGpus() {
		of(share.GetGpuId()).Taken = 1000 - share.GetMilli()
	}
	for _, id := range l.GetWithdrawnGpus() {
		of(id).Lost = true
	}
	for _, s := range l.GetSlices() {
		for _, grant := range s.GetGrants() {
			for _, share := range grant.GetGpus() {
				c := of(share.GetGpuId())
				c.Jobs = append(c.Jobs, s.GetJob())
			}
		}
	}
	return cells
}

// start holds when a waiting job may start, and its reserved nodes.
type start struct {
	Job     string   `json:"job"`
	Basis   string   `json:"basis"`
	At      int64    `json:"at,omitempty"`
	Latest  int64    `json:"latest,omitempty"`
	Likely  int64    `json:"likely,omitempty"`
	Why     string   `json:"why,omitempty"`
	Kept    []string `json:"kept,omitempty"`
	Until   int64    `json:"until,omitempty"`
	Ahead   int32    `json:"ahead,omitempty"`
	AheadMs int64    `json:"aheadMs,omitempty"`
	Words   string   `json:"words"` // the same as text
}

// attemptRow holds one attempt of a job, from the decision to its end.
type attemptRow struct {
	Run       int32      `json:"run"`
	Committed int64      `json:"committed,omitempty"`
	Started   int64      `json:"started,omitempty"`
	Reserving int64      `json:"reserving,omitempty"` // duration before the commit
	Preparing int64      `json:"preparing,omitempty"` // duration after the commit
	Ended     int64      `json:"ended,omitempty"`
	Cause     string     `json:"cause,omitempty"`
	Detail    string     `json:"detail,omitempty"`
	Told      *estimated `json:"told,omitempty"`    // the first estimate of its start
	Used      int64      `json:"used,omitempty"`    // thousandths of a GPU times milliseconds
	Lost      int64      `json:"lost,omitempty"`    // of Used, the work that was lost
	Verdict   string     `json:"verdict,omitempty"` // a sentence; empty: the attempt did not fail
	Class     string     `json:"class,omitempty"`   // of the failure
	Charged   bool       `json:"charged,omitempty"` // the failure counts against restart.limit
}

// estimated is when the start of an attempt was first estimated, and the time from then until the estimated start.
type estimated struct {
	At       int64 `json:"at"`
	Expected int64 `json:"expected"`
}

func runOf(a *messages.AttemptRecord) attemptRow {
	out := attemptRow{Run: a.GetRun(), Committed: a.GetCommittedUnixMs(), Started: a.GetStartedUnixMs(),
		Reserving: a.GetReservingMs(), Preparing: a.GetPreparingMs()}
	if end := a.GetEnd(); end != nil {
		out.Ended, out.Detail = end.GetAtUnixMs(), end.GetDetail()
		out.Cause = messages.Word(end.GetCause().String(), "CAUSE_")
	}
	if t := a.GetTold(); t != nil {
		out.Told = &estimated{t.GetToldUnixMs(), t.GetExpectedMs()}
	}
	if v := a.GetVerdict(); v != nil {
		out.Verdict, out.Class, out.Charged = verdict.Sentence(v), verdict.Word(v.GetClass()), v.GetCharged()
	}
	return out
}

// rank holds one task of a gang, and its node.
type rank struct {
	Rank int32    `json:"rank"`
	Node string   `json:"node"`
	GPUs []string `json:"gpus,omitempty"`
	Exit *exit    `json:"exit,omitempty"` // nil: no known end
}

// exit holds how a task ended.
type exit struct {
	Code   int32  `json:"code"`
	Signal int32  `json:"signal,omitempty"`
	OOM    bool   `json:"oom,omitempty"`
	At     int64  `json:"at,omitempty"`
	Detail string `json:"detail,omitempty"`
	Peak   int64  `json:"peak,omitempty"` // bytes of memory
}

// maxRanks limits the ranks in one answer.
const maxRanks = 300

func ranksOf(a *messages.AttemptRecord, from int) []rank {
	places := a.GetPlaces()
	places = places[min(from, len(places)):min(from+maxRanks, len(places))]
	all := make([]rank, 0, len(places))
	for _, p := range places {
		one := rank{Rank: p.GetRank(), Node: p.GetNode()}
		for _, share := range p.GetGrant().GetGpus() {
			one.GPUs = append(one.GPUs, share.GetGpuId())
		}
		if e := p.GetExit(); e != nil {
			one.Exit = &exit{Code: e.GetCode(), Signal: e.GetSignal(), OOM: e.GetOom(), At: e.GetAtUnixMs(),
				Detail: e.GetDetail(), Peak: e.GetPeakMemoryBytes()}
		}
		all = append(all, one)
	}
	return all
}
