package mirror

import (
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns random facts about jobs. The test sends the facts to a Mirror and also stores them in plain lists.
// Each answer of the Mirror must follow from the lists.

// facts is a Mirror with the facts that it received.
type facts struct {
	*rapid.T
	m         *Mirror
	clock     *moving
	jobs      map[string]*messages.JobStatus
	waits     map[string]policy.Joined // by job: its group
	groups    map[policy.GroupID]GroupReason
	aside     string
	idle      string
	starts    *StartsShown // nil: not sent yet
	gone      map[string]bool
	overdue   map[string]actors.Instant // by job: the first estimate of its start, once that has passed
	described *messages.Queues
	spent     map[string]int64 // by "owner NAME" and "queue NAME"
	took      []string
	tokens    uint64
}

func newFacts(t *rapid.T) *facts {
	f := &facts{
		T: t, jobs: map[string]*messages.JobStatus{}, waits: map[string]policy.Joined{},
		groups: map[policy.GroupID]GroupReason{}, gone: map[string]bool{}, overdue: map[string]actors.Instant{},
		spent: map[string]int64{},
	}
	f.m, f.clock = counting()
	return f
}

func (f *facts) number(most int) int      { return rapid.IntRange(0, most).Draw(f.T, "number") }
func (f *facts) chance(one int) bool      { return f.number(one-1) == 0 }
func (f *facts) word(of ...string) string { return rapid.SampledFrom(of).Draw(f.T, "word") }
func (f *facts) tell(message any) {
	f.m.Receive(&questionContext{who: "tells", message: message, told: func(string, any) {}})
}

// near returns the current time or a time close to it.
func (f *facts) near() int64 {
	return f.clock.WallMs() + rapid.SampledFrom([]int64{-60_000, -1, 0, 1, 90_000}).Draw(f.T, "moment")
}

// holds returns the GPUs that an attempt holds. An attempt holds none before its COMMIT and none after its end.
func holds(s *messages.JobStatus) (milli int64, is bool) {
	a, over := s.GetAttempt(), s.GetRecord().GetState() >= messages.JobState_JOB_STATE_SUCCEEDED
	if s == nil || s.Phase == "queued" || s.Phase == "held" || a.GetCommittedUnixMs() == 0 || a.GetEnd() != nil || over {
		return 0, false
	}
	for _, p := range a.GetPlaces() {
		milli += p.Grant.Amount.MilliGpu
	}
	return milli, true
}

// pass advances the clock and charges each attempt for the GPUs that it holds.
func (f *facts) pass(ms int64) {
	for _, s := range f.jobs { //order: sums
		milli, _ := holds(s)
		f.spent["owner "+s.Record.Owner.Name] += milli * ms
		f.spent["queue "+s.Record.Spec.Queue] += milli * ms
	}
	f.clock.now += time.Duration(ms) * time.Millisecond
}

var factIDs = []string{"a1", "a2", "arr", "arr_1", "arr_2", "b", "b1", "c"}

// drawJob draws the state of a job. Fields that never change keep their values.
func (f *facts) drawJob(id string) *messages.JobStatus {
	was := f.jobs[id]
	r := &messages.JobRecord{
		Id: id, Owner: was.GetRecord().GetOwner(), SubmittedUnixMs: was.GetRecord().GetSubmittedUnixMs(),
		State: messages.JobState_JOB_STATE_QUEUED, Runs: int32(f.number(2)), Failures: int32(f.number(2)),
	}
	if was == nil {
		ages := append([]time.Duration{0, -time.Second, 300 * time.Hour}, WaitAges[:]...)
		age := rapid.SampledFrom(ages).Draw(f.T, "age") + time.Duration(f.number(1))*time.Millisecond
		r.SubmittedUnixMs = f.clock.WallMs() - age.Milliseconds()
		r.Owner = &messages.Principal{Name: f.word("ann", "bob", "cy")}
	}
	r.Spec = &messages.JobSpec{
		Queue: f.word("", "nlp", "vision"), Each: &messages.Resources{MilliGpu: 1000 * int64(f.number(4))},
		Gang: &messages.GangSpec{ReplicasMin: int32(f.number(2) + 1)},
	}
	r.Spec.Call(f.word("Train", "train", "eval"))
	for _, key := range []string{"team", "tier"} {
		if f.chance(2) {
			r.Spec.Labels = append(r.Spec.Labels, &messages.Label{Key: key, Value: f.word("x", "y")})
		}
	}
	switch id {
	case "arr":
		r.Spec.Array = &messages.ArraySpec{Indices: []*messages.IndexRange{{Last: 9}}}
	case "arr_1", "arr_2":
		r.Spec.Element = &messages.Element{Array: "arr", Index: int32(id[4] - '0')}
	}
	s := &messages.JobStatus{Record: r, Phase: rapid.SampledFrom(messages.Phases).Draw(f.T, "phase")}
	if f.chance(2) {
		s.Phase = "queued"
	}
	f.drawWait(s)
	s.Attempt = f.drawAttempt(was.GetAttempt())
	if end := f.number(1); s.Phase == "stopping" && end == 1 && s.Attempt != nil {
		s.Attempt.End = &messages.End{Cause: messages.Cause_CAUSE_MEMBER_FAILED}
	}
	for state := messages.JobState_JOB_STATE_SUCCEEDED; messages.EndPhase(state) != ""; state++ {
		if messages.EndPhase(state) == s.Phase {
			r.State, r.Outcome, r.FinishedUnixMs = state, "it is over", f.clock.WallMs()
		}
	}
	return s
}

// drawWait draws the causes that keep a job out of the queue.
func (f *facts) drawWait(s *messages.JobStatus) {
	r := s.Record
	if s.Phase == "held" || s.Phase == "queued" && f.chance(6) {
		r.Hold = &messages.Deed{By: &messages.Principal{Name: "op"}, Reason: f.word("", "wait")}
	}
	if f.chance(4) {
		r.Spec.BeginUnixMs = f.near()
	}
	if f.chance(4) {
		r.NotBeforeUnixMs = f.near()
	}
	if f.chance(4) {
		s.Debts = []string{"n7"}
	}
	if f.chance(6) {
		s.Reason = "its own reason"
	}
	if f.chance(6) {
		r.Spec.After = []*messages.After{{Job: "b"}}
	}
}

// drawAttempt draws progress of the previous attempt, a new attempt, or none.
func (f *facts) drawAttempt(was *messages.AttemptRecord) *messages.AttemptRecord {
	if f.chance(4) {
		return nil
	}
	if was != nil && f.chance(2) {
		a := &messages.AttemptRecord{
			Token: was.Token, Places: was.Places, Told: was.Told, CommittedUnixMs: was.CommittedUnixMs, End: was.End,
		}
		if a.CommittedUnixMs == 0 && f.chance(2) {
			a.CommittedUnixMs = f.clock.WallMs()
		}
		if f.chance(3) {
			a.End = &messages.End{Cause: messages.Cause_CAUSE_LAUNCH_FAILED, Detail: "no image"}
		}
		return a
	}
	f.tokens++
	a := attemptOf(f.tokens, 0, 1000*int64(f.number(3)), 500)
	if f.chance(2) {
		a.CommittedUnixMs = f.near()
	}
	if f.chance(2) {
		a.Told = &messages.Told{ToldUnixMs: f.near(), ExpectedMs: int64(f.number(1)) * 90_000}
	}
	return a
}

// showJob sends a job's status, and records the durations that a COMMIT reports.
func (f *facts) showJob() {
	id := f.word(factIDs...)
	was, s := f.jobs[id], f.drawJob(id)
	_, had := holds(was)
	if _, has := holds(s); was != nil && has && !(had && was.Attempt.Token == s.Attempt.Token) {
		a := s.Attempt
		took := func(name string, ms int64) {
			f.took = append(f.took, name+" "+(time.Duration(ms)*time.Millisecond).String())
		}
		took("job.wait", max(0, a.CommittedUnixMs-s.Record.SubmittedUnixMs))
		if told := a.Told; told != nil {
			switch late := a.CommittedUnixMs - (told.ToldUnixMs + told.ExpectedMs); {
			case late < 0:
				took("promise.early", -late)
			default:
				took("promise.late", late)
			}
		}
	}
	f.jobs[id] = s
	if s.Phase != "queued" {
		delete(f.waits, id)
	}
	f.tell(JobShown{s})
}

var groupReasons = map[string]messages.WaitCode{
	"needs 8 GPUs": messages.WaitResources, "others go first": messages.WaitPriority,
	"no node matches": messages.WaitNodeSelector, "too large": messages.WaitInfeasible,
}

// showWaiting sends the reasons of groups and their members. It sends the reason of each group that a job joins.
func (f *facts) showWaiting() {
	f.aside = f.word("", f.aside, "1 node dead")
	w, told := WaitingShown{Aside: f.aside}, [4]bool{}
	for _, id := range factIDs {
		if f.chance(3) {
			j := policy.Joined{Job: topology.JobID(id), Group: policy.GroupID(f.number(2) + 1), Burst: uint64(f.number(1) + 1)}
			j.Turn = policy.Turn(f.word("1", "2", "3") + id)
			w.Jobs, told[j.Group] = append(w.Jobs, j), true
			if f.jobs[id] != nil && f.jobs[id].Phase == "queued" {
				f.waits[id] = j
			}
		}
	}
	for g := policy.GroupID(1); g < 4; g++ {
		if told[g] || f.chance(3) {
			reason := f.word(slices.Sorted(maps.Keys(groupReasons))...)
			one := GroupReason{Group: g, Reason: groupReasons[reason].Because(reason)}
			w.Groups, f.groups[g] = append(w.Groups, one), one
		}
	}
	f.tell(w)
}

// showStarts sends estimated starts, and the work ahead of each burst.
func (f *facts) showStarts() {
	now := int64(f.clock.Now())
	at := func() int64 {
		return rapid.SampledFrom([]int64{now - 5*minute, now, now + 5*minute, now + 9*minute, topology.Never}).Draw(f.T, "at")
	}
	s := StartsShown{Learned: f.chance(2), Endless: []Endless{{"svc", "n4"}}}
	expected := map[string]actors.Instant{}
	for _, id := range factIDs {
		if !f.chance(3) {
			continue
		}
		p := policy.Promise{
			Job: topology.JobID(id), At: at(), Latest: at(), By: at(), Until: at(), Firm: f.chance(2), OnLoan: f.chance(2),
			Endless: topology.JobID(f.word("", "svc", "x")), Given: topology.JobID(f.word("", "y")),
		}
		for _, n := range []topology.NodeID{"n1", "n1", "n2"}[f.number(2):] {
			p.Where.Slots = append(p.Where.Slots, topology.Slot{Node: n, Amount: topology.Resources{MilliGPU: 500}})
		}
		s.Promises = append(s.Promises, p)
		expected[id] = actors.Instant(p.At)
		if was, known := f.overdue[id]; known && was <= actors.Instant(now) && p.At <= now {
			expected[id] = was // planned again for the time of this pass
		}
	}
	whys := []policy.Withholding{policy.Headroom, policy.Locality, policy.Withholdings}
	for burst := range uint64(2) {
		if f.chance(3) {
			continue
		}
		s.Lines = append(s.Lines, policy.InLine{
			Burst: burst + 1, Ahead: f.number(5), Work: 1000 * int64(f.number(9)), Each: 7000, Pace: int64(f.number(2)) * 500,
			NoGPUs: f.chance(3), Endless: topology.JobID(f.word("", "svc")), Given: topology.JobID(f.word("", "y")),
			Why:    rapid.SampledFrom(whys).Draw(f.T, "why"),
			Within: "rack", Until: now + 5*minute, Over: f.word("", "", "nlp has no more"),
			Limit: "nlp is full", Share: f.word("", "uses 8 of 9"),
		})
	}
	f.starts, f.gone, f.overdue = &s, map[string]bool{}, expected
	f.tell(s)
}

// step sends one fact and advances the clock.
func (f *facts) step() {
	switch f.number(9) {
	case 0, 1, 2, 3:
		f.showJob()
	case 4, 5:
		f.showWaiting()
	case 6, 7:
		f.showStarts()
	case 8:
		id := f.word(factIDs...)
		delete(f.waits, id)
		delete(f.overdue, id)
		f.gone[id] = true
		f.tell(WaitsNoMore{topology.JobID(id)})
	case 9:
		f.idle = f.word("", "the leader has just begun")
		f.tell(PlanningShown{messages.Reason{Code: messages.WaitHalted, Text: f.idle}})
		f.described = &messages.Queues{Default: f.word("", "nlp", "zeta")}
		f.tell(QueuesShown{&messages.QueuesRecord{Queues: f.described}})
	}
	for g := range policy.GroupID(4) {
		if f.members(g) == 0 {
			delete(f.groups, g) // the group no longer gets updates
		}
	}
	if f.chance(2) {
		f.pass(rapid.SampledFrom([]int64{1, 10_000, 60_000, 6 * 60_000}).Draw(f.T, "ms"))
	}
}

func (f *facts) members(g policy.GroupID) (n int) {
	for _, j := range f.waits {
		if j.Group == g {
			n++
		}
	}
	return n
}

// TestFacts compares the Mirror's answers about jobs with the facts that the Mirror received.
func TestFacts(t *testing.T) {
	for range 10 { // each runs one hundred cases
		rapid.Check(t, func(t *rapid.T) {
			f := newFacts(t)
			for range rapid.IntRange(1, 40).Draw(t, "steps") {
				f.step()
				if f.chance(4) {
					f.checkCensus()
					f.checkShares()
					f.checkJobs()
					f.checkList()
				}
			}
		})
	}
}
