package web

import (
	"github.com/yi-json/synapse/messages"
)

// This file owns what a browser is sent of jobs and machines. Each field is named here, so that nothing reaches a page
// because a message has grown: no command, no environment, no script and no label of a job is ever among them.

// jobRow shows a job as lists and the map need it. Amounts of GPUs are in thousandths, times in milliseconds since
// 1970.
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
	Array     bool   `json:"array,omitempty"` // its elements are counted, and not this row
	Revision  uint64 `json:"rev,omitempty"`   // of its record
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
	}
}

// PastText returns what a page is shown of an event later: of which thing, and whether that changes no more; an empty
// key: nothing. Reasons of what waits change too often to be kept.
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

// box is a machine as the map draws it.
type box struct {
	ID    string   `json:"id"`
	Place []string `json:"place,omitempty"` // coarse to fine
	State string   `json:"state"`
	Phase string   `json:"phase"`
	Why   string   `json:"why,omitempty"`
	Note  string   `json:"note,omitempty"`
	Type  string   `json:"type,omitempty"` // of its GPUs, or of the first
	GPUs  []cell   `json:"gpus,omitempty"`
	GPU   [2]int64 `json:"gpu"` // used, in all
	CPU   [2]int64 `json:"cpu"`
	Mem   [2]int64 `json:"mem"`
	Debts int      `json:"debts,omitempty"`
	Jobs  []string `json:"jobs,omitempty"` // that have something there
}

// cell is one GPU.
type cell struct {
	Type  string   `json:"type,omitempty"`  // where it is not the machine's
	Jobs  []string `json:"jobs,omitempty"`  // that have it, or a part of it
	Taken int64    `json:"taken,omitempty"` // thousandths that are not free
	Lost  bool     `json:"lost,omitempty"`  // withdrawn: it is broken, or gone
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

// cellsOf are a machine's GPUs, in the order in which it announced them.
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
		return &cell{} // a machine that contradicts itself: nothing is drawn for it
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

// start is when a job that waits may start, and what is kept for it.
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
	Words   string   `json:"words"` // the same for people
}

// attemptRow shows one attempt of a job, from the decision to its end.
type attemptRow struct {
	Run       int32  `json:"run"`
	Committed int64  `json:"committed,omitempty"`
	Started   int64  `json:"started,omitempty"`
	Reserving int64  `json:"reserving,omitempty"` // how long, before it was committed
	Preparing int64  `json:"preparing,omitempty"` // how long, from then on
	Ended     int64  `json:"ended,omitempty"`
	Cause     string `json:"cause,omitempty"`
	Detail    string `json:"detail,omitempty"`
}

func runOf(a *messages.AttemptRecord) attemptRow {
	out := attemptRow{Run: a.GetRun(), Committed: a.GetCommittedUnixMs(), Started: a.GetStartedUnixMs(),
		Reserving: a.GetReservingMs(), Preparing: a.GetPreparingMs()}
	if end := a.GetEnd(); end != nil {
		out.Ended, out.Detail = end.GetAtUnixMs(), end.GetDetail()
		out.Cause = messages.Word(end.GetCause().String(), "CAUSE_")
	}
	return out
}

// rank is one member of a gang, and where it runs or ran.
type rank struct {
	Rank int32    `json:"rank"`
	Node string   `json:"node"`
	GPUs []string `json:"gpus,omitempty"`
	Exit *exit    `json:"exit,omitempty"` // none: it has not ended, as far as is known
}

// exit says how a task ended.
type exit struct {
	Code   int32  `json:"code"`
	Signal int32  `json:"signal,omitempty"`
	OOM    bool   `json:"oom,omitempty"`
	At     int64  `json:"at,omitempty"`
	Detail string `json:"detail,omitempty"`
	Peak   int64  `json:"peak,omitempty"` // bytes of memory
}

// maxRanks bounds how many a page is sent at once.
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
