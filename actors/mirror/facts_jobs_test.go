package mirror

import (
	"maps"
	"slices"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns the expected answers about jobs, derived from random facts.

func (f *facts) census() *Census { return ask(f.m, CountAll{}).(*Census) }

// line returns the last estimate for the burst of a waiting job, or nil if there is none.
func (f *facts) line(id string) *policy.InLine {
	if j, waits := f.waits[id]; waits && f.starts != nil {
		for i := range f.starts.Lines {
			if f.starts.Lines[i].Burst == j.Burst {
				return &f.starts.Lines[i]
			}
		}
	}
	return nil
}

// ahead counts the waiting jobs before a job, in its burst and in total.
func (f *facts) ahead(id string) (ofBurst, all int) {
	mine := f.waits[id]
	for _, j := range f.waits {
		if j.Turn < mine.Turn {
			if all++; j.Burst == mine.Burst {
				ofBurst++
			}
		}
	}
	return ofBurst, all
}

// kind returns the reason code of a waiting job.
func (f *facts) kind(id string) messages.WaitCode {
	s := f.jobs[id]
	if s.Reason != "" {
		return messages.WaitEvaluating // a reason in the job's own status has no code
	}
	if _, waits := f.waits[id]; !waits {
		return max(f.m.whyIdle(s).Code, messages.WaitEvaluating) // other tests check whyIdle
	}
	why, _ := f.reason(id)
	word, _, _ := strings.Cut(why, ":")
	return messages.WaitCodeOf(word)
}

func (f *facts) checkCensus() {
	f.Helper()
	got, want := f.census(), Census{Phases: make([]int, len(messages.Phases))}
	for id, s := range f.jobs {
		want.Phases[slices.Index(messages.Phases, s.Phase)]++
		if s.Phase != "queued" && s.Phase != "held" {
			continue
		}
		age := time.Duration(f.clock.WallMs()-s.Record.SubmittedUnixMs) * time.Millisecond
		if age > want.Oldest {
			want.Oldest = age
		}
		within := len(WaitAges)
		for i := len(WaitAges) - 1; i >= 0 && WaitAges[i] >= age; i-- {
			within = i
		}
		want.Waiting[f.kind(id)][within]++
	}
	if f.starts != nil {
		for _, p := range f.starts.Promises {
			if f.gone[string(p.Job)] {
				continue
			}
			sum := &want.Promises[map[bool]int{false: 0, true: 1}[p.Firm]]
			sum.Jobs++
			sum.GPUs += 500 * int64(len(p.Where.Slots))
		}
	}
	if !slices.Equal(got.Phases, want.Phases) || got.Waiting != want.Waiting || got.Oldest != want.Oldest ||
		got.Promises != want.Promises {
		f.Fatalf("counted\n%v %v %s %v\nwant\n%v %v %s %v", got.Phases, got.Waiting, got.Oldest, got.Promises,
			want.Phases, want.Waiting, want.Oldest, want.Promises)
	}
}

// checkShares checks the current and past usage of owners and queues.
func (f *facts) checkShares() {
	f.Helper()
	got := f.census()
	owners, queues := map[string]*Share{}, map[string]*Share{}
	at := func(all map[string]*Share, name string) *Share {
		if all[name] == nil {
			all[name] = &Share{Name: name}
		}
		return all[name]
	}
	usual := f.described.GetDefault()
	for key, spent := range f.spent {
		if name, is := strings.CutPrefix(key, "owner "); is {
			at(owners, name).Spent += spent
			continue
		}
		name := strings.TrimPrefix(key, "queue ")
		if name == "" {
			name = usual
		}
		at(queues, name).Spent += spent
	}
	for _, s := range f.jobs {
		queue, gpus := s.Record.Spec.Queue, s.Record.Spec.Each.MilliGpu*int64(s.Record.Spec.Gang.ReplicasMin)
		if queue == "" {
			queue = usual
		}
		for _, one := range []*Share{at(owners, s.Record.Owner.Name), at(queues, queue)} {
			switch {
			case s.Record.Spec.Array != nil:
			case s.Phase == "queued":
				one.Waiting++
				one.Wanted += gpus
			case slices.Contains([]string{"reserving", "deciding"}, s.Phase),
				slices.Contains([]string{"starting", "running", "stopping"}, s.Phase) && s.Attempt.GetEnd() == nil:
				one.Running++
				one.Held += gpus
			}
		}
	}
	for _, one := range []struct {
		got  []Share
		want map[string]*Share
	}{{got.Owners, owners}, {got.Queues, queues}} {
		var want []Share
		for _, name := range slices.Sorted(maps.Keys(one.want)) {
			if *one.want[name] != (Share{Name: name}) {
				want = append(want, *one.want[name])
			}
		}
		has := slices.DeleteFunc(one.got, func(s Share) bool { return s == Share{Name: s.Name} })
		if !slices.Equal(has, want) {
			f.Fatalf("shares\n%+v\nwant\n%+v", has, want)
		}
	}
	if !slices.Equal(f.clock.took, f.took) {
		f.Fatalf("took\n%v\nwant\n%v", f.clock.took, f.took)
	}
}

// reason returns the reason why a job waits, and the group that shares this reason.
func (f *facts) reason(id string) (why string, group uint64) {
	s := f.jobs[id]
	j, waits := f.waits[id]
	if s.Reason != "" || s.Phase != "queued" && s.Phase != "held" {
		return s.Reason, uint64(j.Group)
	}
	if !waits {
		return f.m.whyIdle(s).Text, 0 // other tests check whyIdle
	}
	if line := f.line(id); line != nil {
		if line.Over != "" {
			return "QueueLimit: " + line.Limit, 0
		}
		if before, _ := f.ahead(id); line.Why == policy.Headroom && before == 0 {
			return "Priority: leaves nodes to jobs shorter than a day", 0
		}
		if before, _ := f.ahead(id); line.Why == policy.Locality && before == 0 {
			until := time.UnixMilli(max(f.wall(actors.Instant(line.Until)), f.clock.WallMs())).UTC().Format("15:04Z")
			return "Topology: prefers 1 rack, starts anywhere from " + until, 0
		}
	}
	said := f.groups[j.Group].Reason
	why, group = said.Text, uint64(j.Group)
	if f.aside != "" && (said.Code == messages.WaitResources || said.Code == messages.WaitNodeSelector) {
		why += ", " + f.aside
	}
	if s.Attempt.GetEnd().GetCause() == messages.Cause_CAUSE_LAUNCH_FAILED {
		return "Launch: no image, now " + strings.TrimPrefix(why, said.Code.String()+": "), 0
	}
	return why, group
}

// wall converts an instant into the time of day.
func (f *facts) wall(at actors.Instant) int64 {
	return f.clock.WallMs() + (int64(at)-int64(f.clock.now))/1_000_000
}

// prospect returns the expected start estimate of a job.
func (f *facts) prospect(id string) *messages.Prospect {
	j, waits := f.waits[id]
	if !waits {
		return nil
	}
	ofBurst, all := f.ahead(id)
	if f.starts == nil {
		return &messages.Prospect{
			Basis: messages.Basis_BASIS_NONE, Why: "the order fifo plans no starts", Ahead: int32(all),
		}
	}
	for i := range f.starts.Promises {
		if p := &f.starts.Promises[i]; p.Job == j.Job && !f.gone[id] && p.At != topology.Never {
			return f.promised(p)
		}
	}
	line := f.line(id)
	if line == nil {
		return &messages.Prospect{Basis: messages.Basis_BASIS_NONE, Why: "the job is not planned yet"}
	}
	given := line.Given
	if ofBurst > 0 {
		given = "" // given back belongs to the first job only
	}
	x := &messages.Prospect{
		Basis: messages.Basis_BASIS_NONE, Why: f.whyNoTime(line.Endless, given), Ahead: int32(line.Ahead + ofBurst),
	}
	if line.Over != "" {
		x.Why = line.Over
	} else if line.Why == policy.Headroom {
		x.Why = headroomWords
	}
	milli := line.Work + 7000*int64(ofBurst)
	if !line.NoGPUs {
		x.AheadGpuSeconds = milli / 1000
	}
	if line.Pace != 0 {
		x.AheadMs = 1000 * (milli / line.Pace)
	}
	return x
}

// promised returns the expected start estimate of a job with reserved nodes.
func (f *facts) promised(p *policy.Promise) *messages.Prospect {
	now, at := int64(f.clock.now), f.overdue[string(p.Job)]
	x := &messages.Prospect{Basis: messages.Basis_BASIS_LEARNED, AtUnixMs: f.wall(at)}
	if p.Firm && p.Latest != topology.Never {
		x.Basis, x.OnLoan = messages.Basis_BASIS_LIMITS, p.OnLoan
		x.LatestUnixMs = max(f.wall(actors.Instant(p.Latest)), x.AtUnixMs)
	} else {
		x.Why, x.Unlearned = f.whyNoTime(p.Endless, p.Given), !f.starts.Learned
		if p.By > p.At && p.By > now {
			x.LikelyUnixMs = f.wall(actors.Instant(p.By))
		}
	}
	if p.Until != topology.Never {
		x.KeptUntilUnixMs = max(f.wall(actors.Instant(p.Until)), f.clock.WallMs())
	}
	for _, node := range []string{"n1", "n2"} {
		if slices.ContainsFunc(p.Where.Slots, func(s topology.Slot) bool { return string(s.Node) == node }) {
			x.Kept = append(x.Kept, node)
		}
	}
	return x
}

func (f *facts) whyNoTime(endless, given topology.JobID) string {
	text := ""
	turn := "its reservation was released, and the next one follows when " + f.m.called(string(given), true) + " has ended"
	if endless == "svc" {
		text = "svc on n4 has no time limit"
	}
	switch {
	case given == "":
		return text
	case text == "":
		return turn
	}
	return text + "; " + turn
}

// checkJobs checks the status that readers get for each job.
func (f *facts) checkJobs() {
	f.Helper()
	for _, id := range slices.Sorted(maps.Keys(f.jobs)) {
		s := f.jobs[id]
		got := ask(f.m, &messages.GetJob{Job: id}).(*messages.GetJobReply).Job
		why, group := f.reason(id)
		if got.Record != s.Record || got.Attempt != s.Attempt || !slices.Equal(got.Debts, s.Debts) || got.Reason != why ||
			got.Group != group {
			f.Fatalf("%s is shown as\n%v\nwant\n%v\nfor %q of group %d", id, got, s, why, group)
		}
		if want := f.prospect(id); !proto.Equal(got.Prospect, want) {
			f.Fatalf("%s starts\n%v\nwant\n%v\nat %s", id, got.Prospect, want, f.clock.now)
		}
	}
}

// checkList checks a list with random filters, page by page.
func (f *facts) checkList() {
	f.Helper()
	q := &messages.ListJobs{
		Owner: f.word("", "", "ann"), Queue: f.word("", "", "nlp"), Name: f.word("", "", "Train", "train"),
		Array: f.word("", "", "arr"), Elements: f.chance(2), Limit: int32(f.number(3)), After: f.word("", "", "arr", "aa"),
	}
	if f.chance(3) {
		q.Labels = []*messages.Label{{Key: "team", Value: "x"}, {Key: "tier", Value: "y"}}[f.number(1):]
	}
	if f.chance(3) {
		q.Phases = []string{"queued", "held"}[f.number(1):]
	}
	var want, got []string
	for _, id := range slices.Sorted(maps.Keys(f.jobs)) {
		s := f.jobs[id]
		spec, ok := s.Record.Spec, id > q.After
		ok = ok && (q.Owner == "" || s.Record.Owner.Name == q.Owner) && (q.Queue == "" || spec.Queue == q.Queue)
		ok = ok && (q.Name == "" || spec.Name == q.Name || spec.Title == q.Name)
		ok = ok && (len(q.Phases) == 0 || slices.Contains(q.Phases, s.Phase))
		if q.Array != "" {
			ok = ok && spec.Element.GetArray() == q.Array
		} else {
			ok = ok && (spec.Element == nil || q.Elements)
		}
		for _, l := range q.Labels {
			ok = ok && slices.ContainsFunc(spec.Labels, func(o *messages.Label) bool { return proto.Equal(l, o) })
		}
		if ok {
			want = append(want, id)
		}
	}
	for range 100 {
		r := ask(f.m, q).(*messages.ListJobsReply)
		if q.Limit > 0 && len(r.Jobs) > int(q.Limit) {
			f.Fatalf("%v: %d jobs", q, len(r.Jobs))
		}
		for _, j := range r.Jobs {
			got = append(got, j.Record.Id)
			why, group := f.reason(j.Record.Id)
			if j.Reason != why || j.Group != group || !proto.Equal(j.Prospect, f.prospect(j.Record.Id)) {
				f.Fatalf("%v is listed, want %q of group %d, with %v", j, why, group, f.prospect(j.Record.Id))
			}
		}
		if q.After = r.Next; r.Next == "" {
			break
		}
	}
	if !slices.Equal(got, want) {
		f.Fatalf("%v\nlists %v, want %v", q, got, want)
	}
}
