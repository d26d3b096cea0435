package show

import (
	"io"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/explain"
)

// This file prints the answer of `explain`: rows on a terminal, and one object for programs.

// Explanation prints the facts about why a job waits. Older schedulers send only a text.
func Explanation(w io.Writer, s Style, reply *messages.ExplainJobReply, job *messages.JobName, phase string) error {
	e := reply.GetExplanation()
	if s.Format != "" {
		return Object(w, s.Format, explanationObject(e, job, phase, reply.GetText()))
	}
	text := s.local(Lines(reply.GetText())) + "\n"
	switch {
	case e != nil:
		s.NowMs = e.GetAtUnixMs() // the texts were written then
		text = explain.Of(e).With(s.local).Text(s.Width)
	case job.GetId() == "":
		text = oneLine(job.GetName()) + ": " + text
	}
	_, err := io.WriteString(w, text)
	return err
}

// explanationObj holds every fact of an explanation. Its lists have at most 100 entries, and the number of the
// others.
type explanationObj struct {
	APIVersion      string           `json:"apiVersion"`
	Kind            string           `json:"kind"`
	Job             string           `json:"job,omitempty"`
	ShortID         string           `json:"shortId,omitempty"`
	Name            string           `json:"name,omitempty"`
	Owner           string           `json:"owner,omitempty"`
	Phase           string           `json:"phase,omitempty"` // empty: the job is not submitted
	Reason          string           `json:"reason,omitempty"`
	ReasonCode      string           `json:"reasonCode,omitempty"`
	Never           bool             `json:"neverStarts"` // on the known nodes of the cluster
	At              string           `json:"at,omitempty"`
	Text            string           `json:"text"` // all facts in one line
	Failure         string           `json:"lastFailure,omitempty"`
	Needs           *demandObj       `json:"needs,omitempty"`
	Space           *spaceObj        `json:"space,omitempty"`
	InUse           []holdingObj     `json:"inUse,omitempty"`
	MoreInUse       int32            `json:"moreInUse,omitempty"`
	Unavailable     []unavailableObj `json:"unavailable,omitempty"`
	MoreUnavailable int32            `json:"moreUnavailable,omitempty"`
	Reserved        []holdingObj     `json:"reserved,omitempty"`
	MoreReserved    int32            `json:"moreReserved,omitempty"`
	Start           *startObj        `json:"start,omitempty"`
	NoLimit         *jobNameObj      `json:"noTimeLimit,omitempty"` // the job that prevents a start guarantee
	FitsAfter       []jobNameObj     `json:"fitsAfter,omitempty"`
	FitsBy          string           `json:"fitsBy,omitempty"`
	Ahead           int32            `json:"ahead,omitempty"`
	Waiting         int32            `json:"waiting,omitempty"`
	Limit           string           `json:"limit,omitempty"`
	Quota           string           `json:"quota,omitempty"`
	Dependencies    []dependencyObj  `json:"dependencies,omitempty"`
	Conflict        []constraintObj  `json:"conflict,omitempty"`
	InTheWay        []constraintObj  `json:"inTheWay,omitempty"`
	AtOnce          int32            `json:"atOnce,omitempty"`
	Relaxations     []relaxationObj  `json:"toStartNow,omitempty"`
}

type jobNameObj struct {
	Job     string `json:"job"`
	ShortID string `json:"shortId,omitempty"`
	Name    string `json:"name,omitempty"`
	Owner   string `json:"owner,omitempty"`
}

type demandObj struct {
	Total    amountObj  `json:"total"`
	Each     *amountObj `json:"each,omitempty"` // of one task; nil: the total is divided over the nodes
	Tasks    int32      `json:"tasks,omitempty"`
	GPUType  string     `json:"gpuType,omitempty"`
	Level    string     `json:"level,omitempty"`
	Prefers  bool       `json:"preferred,omitempty"` // the level is preferred, not required
	Whole    bool       `json:"wholeNodes,omitempty"`
	Separate bool       `json:"separateNodes,omitempty"`
	User     string     `json:"user,omitempty"`
	Named    bool       `json:"namedNodes,omitempty"`
	Excluded bool       `json:"excludedNodes,omitempty"`
	Failed   bool       `json:"failedNodes,omitempty"`   // it avoids nodes on which it failed
	Draining bool       `json:"drainingNodes,omitempty"` // it avoids nodes that drain before its end
	Spares   int32      `json:"spares,omitempty"`        // of tasks, those that are nodes without a task
}

type spaceObj struct {
	Level         string     `json:"level,omitempty"`
	Domain        string     `json:"domain,omitempty"`
	Free          *amountObj `json:"free,omitempty"` // only the missing kind of resource
	Total         *amountObj `json:"total,omitempty"`
	Usable        *amountObj `json:"usable,omitempty"`
	Nearest       string     `json:"nearestNode,omitempty"`
	NearestAsked  *amountObj `json:"nearestNodeNeeds,omitempty"`
	NearestHas    *amountObj `json:"nearestNodeHas,omitempty"`
	Unmet         string     `json:"unmet,omitempty"`
	Nodes         int32      `json:"nodes"`
	Other         int32      `json:"nodesOther"`
	Unavailable   int32      `json:"nodesUnavailable"`
	Excluded      int32      `json:"nodesExcluded"`
	Useful        int32      `json:"nodesUseful"`
	WithoutGPUs   int32      `json:"nodesWithoutGpus"`
	WithoutCPUs   int32      `json:"nodesWithoutCpus"`
	WithoutMemory int32      `json:"nodesWithoutMemory"`
}

type holdingObj struct {
	jobNameObj
	Amount amountObj `json:"amount"`
	Nodes  int32     `json:"nodes,omitempty"`
	EndsBy string    `json:"endsBy,omitempty"`
	Ends   string    `json:"ends,omitempty"` // time-limit, no-limit or unknown
}

type unavailableObj struct {
	Node   string `json:"node"`
	Reason string `json:"reason"`
	By     string `json:"by,omitempty"`
	Note   string `json:"note,omitempty"`
}

type dependencyObj struct {
	jobNameObj
	End   string `json:"end"` // ok, any or failed
	Phase string `json:"phase,omitempty"`
}

type constraintObj struct {
	Kind string `json:"kind"`
	Name string `json:"name,omitempty"`
}

type relaxationObj struct {
	Text             string       `json:"text"`
	Needs            *demandObj   `json:"needs,omitempty"`
	ReturnNodes      []string     `json:"returnNodes,omitempty"`
	TimeLimitSeconds int64        `json:"timeLimitSeconds,omitempty"`
	Before           []jobNameObj `json:"beforeReservationsOf,omitempty"`
}

func explanationObject(e *messages.Explanation, job *messages.JobName, phase, text string) explanationObj {
	o := explanationObj{
		APIVersion: "synapse/v1", Kind: "Explanation", Job: job.GetId(), ShortID: e.GetJob().GetShortId(),
		Name: job.GetName(), Owner: e.GetJob().GetOwner(), Phase: phase, Text: text, Reason: e.GetReason(),
		ReasonCode: e.GetReasonCode(), Never: e.GetNever(), At: stamp(e.GetAtUnixMs()), Failure: e.GetFailure(),
		Needs: demandObject(e.GetNeeds()), Space: spaceObject(e.GetSpace()), InUse: each(e.GetInUse(), holdingObject),
		MoreInUse: e.GetMoreInUse(), MoreUnavailable: e.GetMoreUnavailable(), Reserved: each(e.GetReserved(), holdingObject),
		MoreReserved: e.GetMoreReserved(), FitsAfter: each(e.GetFitsAfter(), jobNameObject),
		FitsBy: stamp(e.GetFitsByUnixMs()), Ahead: e.GetAhead(), Waiting: e.GetWaiting(), Limit: e.GetLimit(),
		Quota: e.GetQuota(), Conflict: each(e.GetConflict(), constraintObject),
		InTheWay: each(e.GetInTheWay(), constraintObject), AtOnce: e.GetAtOnce(),
		Start: startObject(&messages.JobStatus{Prospect: e.GetStart()}),
		Unavailable: each(e.GetUnavailable(), func(n *messages.UnavailableNode) unavailableObj {
			return unavailableObj{n.GetNode(), n.GetReason(), n.GetBy(), n.GetNote()}
		}),
		Dependencies: each(e.GetDependencies(), func(d *messages.Dependency) dependencyObj {
			end := d.GetEnd().Word()
			if end == "" {
				end = "ok"
			}
			return dependencyObj{jobNameObject(d.GetJob()), end, d.GetPhase()}
		}),
		Relaxations: each(e.GetRelaxations(), func(r *messages.Relaxation) relaxationObj {
			return relaxationObj{r.GetText(), demandObject(r.GetNeeds()), r.GetReturnNodes(), r.GetTimeLimitMs() / 1000,
				each(r.GetBefore(), jobNameObject)}
		}),
	}
	if e.GetNoLimit() != nil {
		name := jobNameObject(e.GetNoLimit())
		o.NoLimit = &name
	}
	return o
}

func jobNameObject(j *messages.JobName) jobNameObj {
	return jobNameObj{j.GetId(), j.GetShortId(), j.GetName(), j.GetOwner()}
}

func constraintObject(c *messages.Constraint) constraintObj {
	return constraintObj{c.GetKind(), c.GetName()}
}

func holdingObject(h *messages.Holding) holdingObj {
	return holdingObj{jobNameObject(h.GetJob()), amountObject(h.GetAmount()), h.GetNodes(), stamp(h.GetEndsUnixMs()),
		h.GetEnds()}
}

// amountOrNone returns an amount, or nil if it is missing.
func amountOrNone(r *messages.Resources) *amountObj {
	if r == nil {
		return nil
	}
	o := amountObject(r)
	return &o
}

func demandObject(d *messages.Demand) *demandObj {
	if d == nil {
		return nil
	}
	return &demandObj{
		Total: amountObject(d.GetTotal()), Each: amountOrNone(d.GetEach()), Tasks: d.GetTasks(), GPUType: d.GetGpuType(),
		Level: d.GetLevel(), Prefers: d.GetPreferred(), Whole: d.GetWholeNodes(), Separate: d.GetSeparateNodes(),
		User: d.GetUser(), Named: d.GetNamedNodes(), Excluded: d.GetExcludedNodes(), Failed: d.GetFailedNodes(),
		Draining: d.GetDrainingNodes(), Spares: d.GetSpares(),
	}
}

func spaceObject(s *messages.Space) *spaceObj {
	if s == nil {
		return nil
	}
	return &spaceObj{
		Level: s.GetLevel(), Domain: s.GetDomain(), Free: amountOrNone(s.GetFree()), Total: amountOrNone(s.GetTotal()),
		Usable: amountOrNone(s.GetUsable()), Nearest: s.GetNearest(), NearestAsked: amountOrNone(s.GetNearestAsked()),
		NearestHas: amountOrNone(s.GetNearestHas()), Unmet: s.GetUnmet(), Nodes: s.GetNodes(), Other: s.GetNodesOther(),
		Unavailable: s.GetNodesUnavailable(), Excluded: s.GetNodesExcluded(), Useful: s.GetNodesUseful(),
		WithoutGPUs: s.GetNodesWithoutGpus(), WithoutCPUs: s.GetNodesWithoutCpus(), WithoutMemory: s.GetNodesWithoutMemory(),
	}
}
