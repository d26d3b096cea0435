package show

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file defines the objects of -o json and -o yaml for programs. They are not the messages of the API: within
// synapse/v1, fields are only added, never renamed or retyped.

type listObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Items      []any  `json:"items"`
}

type jobObj struct {
	APIVersion string       `json:"apiVersion"`
	Kind       string       `json:"kind"`
	Metadata   jobMeta      `json:"metadata"`
	Spec       jobfile.Spec `json:"spec"`
	Status     jobStatus    `json:"status"`
}

type jobMeta struct {
	ID string `json:"id"`
	jobfile.Metadata
	Owner     string `json:"owner,omitempty"`
	RequestID string `json:"requestId,omitempty"`
	Revision  uint64 `json:"revision,omitempty"` // of its record; two objects with the same revision have the same record
}

type jobStatus struct {
	Phase          string     `json:"phase"`
	Over           bool       `json:"finished"`
	Reason         string     `json:"reason,omitempty"`
	ReasonCode     string     `json:"reasonCode,omitempty"` // of a waiting job
	Outcome        string     `json:"outcome,omitempty"`
	ExitCode       *int       `json:"exitCode,omitempty"`
	Submitted      string     `json:"submittedAt,omitempty"`
	Finished       string     `json:"finishedAt,omitempty"`
	UID            uint32     `json:"uid,omitempty"`                // of its tasks, if the job names no user, or root
	MemoryByShare  bool       `json:"memoryByDefault,omitempty"`    // the spec's memory is the default
	LimitByDefault bool       `json:"timeLimitByDefault,omitempty"` // the spec's time limit is the default
	Runs           int32      `json:"attemptCount"`
	RanSeconds     *int64     `json:"runtimeSeconds,omitempty"` // over all attempts
	Failures       int32      `json:"failures"`
	InfraRestarts  int32      `json:"infraRestarts"`
	Preemptions    int32      `json:"preemptions,omitempty"`
	Stops          []victim   `json:"preempts,omitempty"` // jobs that are stopped for it while it waits
	Script         *scriptObj `json:"script,omitempty"`
	Held           *deedObj   `json:"held,omitempty"`
	Cancelled      *deedObj   `json:"cancelled,omitempty"`
	Attempt        *attempt   `json:"attempt,omitempty"`
	Debts          []string   `json:"unconfirmed,omitempty"`
	Progress       *progress  `json:"progress,omitempty"` // of the latest attempt, as its tasks report it
	Stall          *stallObj  `json:"stall,omitempty"`    // of a running job without progress
	Use            *useObj    `json:"use,omitempty"`      // of a running job
	Start          *startObj  `json:"start,omitempty"`    // of a queued job
	Elements       *countsObj `json:"elements,omitempty"` // of an array
	Attempts       []*attempt `json:"attempts,omitempty"` // only in describe: all stored attempts, without their ranks
	Withheld       bool       `json:"withheld,omitempty"` // env, command and script are hidden from the caller
}

// countsObj holds the number of elements of an array in each state.
type countsObj struct {
	Waiting   int32 `json:"waiting"`
	Running   int32 `json:"running"`
	Succeeded int32 `json:"succeeded"`
	Failed    int32 `json:"failed"`
	Cancelled int32 `json:"cancelled"`
}

func countsOf(c *messages.ArrayCounts) *countsObj {
	if c == nil {
		return nil
	}
	return &countsObj{c.Waiting, c.Running, c.Succeeded, c.Failed, c.Cancelled}
}

// scriptObj identifies a script. Its text is in the spec, if it was available.
type scriptObj struct {
	Name   string `json:"name"`
	Digest string `json:"sha256"`
	Bytes  int64  `json:"bytes"`
}

type deedObj struct {
	By     string `json:"by"`
	At     string `json:"at,omitempty"`
	Reason string `json:"reason,omitempty"`
}

type attempt struct {
	Run       int32     `json:"number"`
	Committed string    `json:"committedAt,omitempty"`
	Started   string    `json:"startedAt,omitempty"`
	Ended     string    `json:"endedAt,omitempty"`
	Cause     string    `json:"cause,omitempty"`
	Detail    string    `json:"detail,omitempty"`
	Ranks     []rankObj `json:"ranks,omitempty"`
	Told      *toldObj  `json:"firstEstimate,omitempty"` // first estimate while the job waited for this attempt
	// Verdict is the cause of the failure; nil: the attempt did not fail.
	Verdict *verdictObj `json:"verdict,omitempty"`
	InPlace *inPlaceObj `json:"restartedInPlace,omitempty"`
	Spares  []string    `json:"spares,omitempty"` // nodes that it holds to replace lost ones
	savedObj
}

type rankObj struct {
	Rank    int32    `json:"rank"`
	Machine string   `json:"node"`
	Address string   `json:"address,omitempty"`
	GPUs    []string `json:"gpus,omitempty"`
	Exit    *exitObj `json:"exit,omitempty"`
}

type exitObj struct {
	Kind   string `json:"kind"`
	Code   int32  `json:"code"`
	Signal int32  `json:"signal,omitempty"`
	OOM    bool   `json:"oom,omitempty"`
	Disk   bool   `json:"disk,omitempty"`
	At     string `json:"at,omitempty"`
	Detail string `json:"detail,omitempty"`
}

func jobObject(s *messages.JobStatus, nowMs int64) jobObj {
	r := s.GetRecord()
	f := jobfile.Format(r.GetSpec())
	j := job{s, nowMs}
	o := jobObj{
		APIVersion: f.APIVersion, Kind: f.Kind, Spec: f.Spec,
		Metadata: jobMeta{ID: r.GetId(), Metadata: f.Metadata, Owner: r.Whose(), RequestID: r.GetRequestId(),
			Revision: r.GetRevision()},
		Status: jobStatus{
			Phase: s.GetPhase(), Over: r.GetState().Terminal(), Reason: j.why(),
			ReasonCode: s.GetReasonCode(), Outcome: r.GetOutcome(),
			Submitted: stamp(r.GetSubmittedUnixMs()), Finished: stamp(r.GetFinishedUnixMs()),
			UID: r.GetUid(), MemoryByShare: r.GetMemoryByShare(), LimitByDefault: r.GetLimitByDefault(), Runs: r.GetRuns(),
			Failures: r.GetFailures(), InfraRestarts: r.GetInfraRestarts(),
			Preemptions: r.GetPreemptions(), Stops: victimObjects(r.GetPromise().GetVictims()),
			Held: deedObject(r.GetHold()), Cancelled: deedObject(r.GetCancel()), Attempt: attemptObject(s.GetAttempt()),
			Debts:    s.GetDebts(),
			Progress: progressObject(s.GetProgress()), Stall: stallObject(s.GetStall()),
			Use:      useObject(s.GetUse()),
			Withheld: s.GetWithheld(),
		},
	}
	if t := r.GetSpec().GetScript(); t != nil {
		o.Status.Script = &scriptObj{t.GetName(), t.GetDigest(), t.GetSizeBytes()}
	}
	o.Status.Elements = countsOf(s.GetCounts())
	o.Status.Start = startObject(s)
	if ms := j.ranMs(); ms >= 0 {
		seconds := ms / 1000
		o.Status.RanSeconds = &seconds
	}
	if r.GetState().Terminal() {
		code := ExitCode(r)
		o.Status.ExitCode = &code
	}
	return o
}

func deedObject(d *messages.Deed) *deedObj {
	if d == nil {
		return nil
	}
	return &deedObj{d.GetBy().GetName(), stamp(d.GetAtUnixMs()), d.GetReason()}
}

func attemptObject(a *messages.AttemptRecord) *attempt {
	if a == nil {
		return nil
	}
	o := &attempt{Run: a.GetRun(), Committed: stamp(a.GetCommittedUnixMs()), Started: stamp(a.GetStartedUnixMs()),
		Told: toldObject(a.GetTold(), a.GetCommittedUnixMs()), Verdict: verdictObject(a.GetVerdict()),
		InPlace:  inPlaceObject(a),
		Spares:   spareNodes(a),
		savedObj: savedObject(a.GetSaved(), a.GetMissed(), a.GetEnd().GetCause(), a.GetEnd().GetRanMs())}
	if e := a.GetEnd(); e != nil {
		o.Ended, o.Cause, o.Detail = stamp(e.GetAtUnixMs()), causeWord(e.GetCause()), e.GetDetail()
	}
	for _, p := range a.GetPlaces() {
		r := rankObj{Rank: p.GetRank(), Machine: p.GetNode(), Address: p.GetAddress()}
		for _, g := range p.GetGrant().GetGpus() {
			r.GPUs = append(r.GPUs, g.GetGpuId())
		}
		if e := p.GetExit(); e != nil {
			r.Exit = &exitObj{messages.Word(e.GetKind().String(), "EXIT_KIND_"), e.GetCode(), e.GetSignal(), e.GetOom(),
				e.GetDisk(),
				stamp(e.GetAtUnixMs()), e.GetDetail()}
		}
		o.Ranks = append(o.Ranks, r)
	}
	return o
}

type nodeObj struct {
	APIVersion string     `json:"apiVersion"`
	Kind       string     `json:"kind"`
	Metadata   nodeMeta   `json:"metadata"`
	Status     nodeStatus `json:"status"`
}

type nodeMeta struct {
	ID     string            `json:"id"`
	Labels map[string]string `json:"labels,omitempty"`
	Place  []placeObj        `json:"topology,omitempty"`
}

// placeObj holds the domain of one topology level. The domains are a list, because their order matters.
type placeObj struct {
	Level string `json:"level"`
	Name  string `json:"domain"`
}

type nodeStatus struct {
	Phase         string     `json:"phase"`
	Open          bool       `json:"schedulable"`
	Reason        string     `json:"reason,omitempty"`
	Address       string     `json:"address,omitempty"`
	AgentVersion  string     `json:"agentVersion,omitempty"`
	Joined        string     `json:"joinedAt,omitempty"`
	HeardMsAgo    int64      `json:"lastSeenMsAgo"`
	Total         amountObj  `json:"total"`
	Free          *amountObj `json:"free,omitempty"`
	GPUs          []gpuObj   `json:"gpus,omitempty"`
	WithdrawnGPUs []string   `json:"withdrawnGpus,omitempty"`
	Slices        []sliceObj `json:"allocations,omitempty"`
	Cordoned      *deedObj   `json:"cordoned,omitempty"`
	Drained       *deedObj   `json:"drained,omitempty"`
	DrainEnds     string     `json:"drainEndsAt,omitempty"`
	Closing       *deedObj   `json:"plannedDrain,omitempty"`
	ClosesAt      string     `json:"drainStartsAt,omitempty"`
	Note          *deedObj   `json:"note,omitempty"`
	Debts         int        `json:"unconfirmed,omitempty"`
	Users         *usersObj  `json:"users,omitempty"`

	Suspicion *suspicionObj `json:"suspicion,omitempty"`
}

// usersObj describes the accounts for jobs on a node. Its lists are the first entries of a number.
type usersObj struct {
	Any         bool              `json:"any"`
	Own         []string          `json:"own,omitempty"`
	OwnCount    int32             `json:"ownCount"`
	More        bool              `json:"more,omitempty"`
	Owners      map[string]string `json:"owners,omitempty"`
	OwnersCount int32             `json:"ownersCount"`
}

// amountObj uses the units of the API, because programs calculate with it.
type amountObj struct {
	MilliCPU    int64 `json:"milliCpu"`
	MemoryBytes int64 `json:"memoryBytes"`
	MilliGPU    int64 `json:"milliGpu"`
}

type gpuObj struct {
	ID          string `json:"id"`
	Type        string `json:"type,omitempty"`
	MemoryBytes int64  `json:"memoryBytes,omitempty"`
	Declared    bool   `json:"declared,omitempty"`
}

type sliceObj struct {
	Job   string  `json:"job"`
	State string  `json:"state"`
	Ranks []int32 `json:"ranks,omitempty"`
}

func nodeObject(s *messages.NodeStatus) nodeObj {
	r, a := s.GetRecord(), s.GetRecord().GetAnnouncement()
	n := node{NodeStatus: s}
	o := nodeObj{
		APIVersion: "synapse/v1", Kind: "Node",
		Metadata: nodeMeta{ID: r.GetId()},
		Status: nodeStatus{
			Phase: s.GetPhase(), Open: s.GetPhase() == "up" && s.GetClosed() == "", Reason: n.why(), Address: a.GetAddress(),
			AgentVersion: a.GetAgentVersion(),
			Joined:       stamp(r.GetJoinedUnixMs()), HeardMsAgo: s.GetHeardMsAgo(), Total: amountObject(a.GetTotal()),
			WithdrawnGPUs: s.GetLedger().GetWithdrawnGpus(),
			Cordoned:      deedObject(r.GetCordoned()), Drained: deedObject(r.GetDrained()), Debts: len(s.GetDebts()),
			Note: deedObject(r.GetNote()),
		},
	}
	if r.GetDrained() != nil && r.GetDrainDeadlineUnixMs() > 0 {
		o.Status.DrainEnds = stamp(r.GetDrainDeadlineUnixMs())
	}
	if r.GetClosing() != nil {
		o.Status.Closing, o.Status.ClosesAt = deedObject(r.GetClosing()), stamp(r.GetClosesUnixMs())
	}
	o.Status.Users, o.Status.Suspicion = usersObject(s.GetUsers()), suspicionObject(s.GetSuspicion())
	for _, l := range a.GetLabels() {
		if o.Metadata.Labels == nil {
			o.Metadata.Labels = map[string]string{}
		}
		o.Metadata.Labels[l.GetKey()] = l.GetValue()
	}
	for _, l := range a.GetPlace() {
		o.Metadata.Place = append(o.Metadata.Place, placeObj{l.GetKey(), l.GetValue()})
	}
	if l := s.GetLedger(); l != nil {
		o.Status.Total = amountObject(l.GetTotal())
		free := amountObject(l.GetFree())
		o.Status.Free = &free
	}
	for _, g := range a.GetGpus() {
		o.Status.GPUs = append(o.Status.GPUs, gpuObj{g.GetId(), g.GetType(), g.GetMemoryBytes(), g.GetDeclared()})
	}
	for _, l := range s.GetLedger().GetSlices() {
		slice := sliceObj{Job: l.GetJob(), State: holdingWord(l.GetState())}
		for _, g := range l.GetGrants() {
			slice.Ranks = append(slice.Ranks, g.GetRank())
		}
		o.Status.Slices = append(o.Status.Slices, slice)
	}
	return o
}

func usersObject(u *messages.NodeUsers) *usersObj {
	if u == nil {
		return nil
	}
	o := &usersObj{
		Any: u.GetAny(), Own: u.GetOwn(), OwnCount: u.GetOwnCount(), More: u.GetMore(), OwnersCount: u.GetMappedCount(),
		Owners: map[string]string{},
	}
	for _, m := range u.GetMapped() {
		o.Owners[m.GetOwner()] = m.GetAccount()
	}
	return o
}

func amountObject(r *messages.Resources) amountObj {
	return amountObj{r.GetMilliCpu(), r.GetMemoryBytes(), r.GetMilliGpu()}
}

// Object prints any other object for -o json or yaml.
func Object(w io.Writer, format string, object any) error { return document(w, format, object) }

// document prints an object. YAML is converted from JSON, so that both have the same keys in the same order.
func document(w io.Writer, format string, object any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(object); err != nil {
		return err
	}
	if template, is := strings.CutPrefix(format, jsonPath); is {
		return templated(w, template, b.Bytes())
	}
	if format == "yaml" {
		var tree yaml.Node
		if err := yaml.Unmarshal(readable(b.Bytes()), &tree); err != nil {
			return err
		}
		unquote(&tree)
		b.Reset()
		encoder := yaml.NewEncoder(&b)
		encoder.SetIndent(2)
		if err := encoder.Encode(&tree); err != nil {
			return err
		}
	}
	_, err := w.Write(b.Bytes())
	return err
}

// readable escapes the characters in JSON that YAML refuses or takes for line ends.
func readable(text []byte) []byte {
	var out bytes.Buffer
	for _, r := range string(text) {
		if r <= 0xffff && r != '\n' && messages.Steers(r) || r == 0xfffe || r == 0xffff {
			fmt.Fprintf(&out, `\u%04x`, r)
			continue
		}
		out.WriteRune(r)
	}
	return out.Bytes()
}

// unquote drops the style of JSON. The encoder adds quotes if they are needed.
func unquote(n *yaml.Node) {
	n.Style = jobfile.TextStyle(n.Value)
	for _, part := range n.Content {
		unquote(part)
	}
}
