package mirror

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the expected GPU time, derived from random facts about nodes: the class of each part of a GPU, its
// duration, and the counts of GPUs by state.

// keptOn returns the GPUs that are reserved on a node.
func (r *rig) keptOn(id string) (milli int64) {
	for _, slots := range r.kept {
		for _, s := range slots {
			if string(s.Node) == id {
				milli += 700
			}
		}
	}
	return milli
}

// use holds a part of a node's GPUs in one class.
type use struct {
	class        goodput.Class
	milli        int64
	owner, queue string
	token        topology.Token
	began, saved int64
}

// uses returns the use of each part of a node.
func (r *rig) uses(id string) (all []use) {
	n, kept := r.nodes[id], r.keptOn(id)
	idle := goodput.Unwanted
	if gpus := n.Status.Record.Announcement.GetGpus(); len(gpus) > 0 &&
		(r.wants.Any || slices.Contains(r.wants.Types, gpus[0].Type)) {
		idle = goodput.Wanted
	}
	for _, p := range r.parts[id] {
		switch {
		case n.Status.Phase != "up" || n.Untrue || p.what == "broken":
			all = append(all, use{class: goodput.Broken, milli: p.milli})
		case p.what == "held":
			all = append(all, r.useOf(p))
		case n.Free != goodput.Unwanted:
			all = append(all, use{class: n.Free, milli: p.milli})
		default:
			taken := min(kept, p.milli)
			kept -= taken
			all = append(all, use{class: goodput.Kept, milli: taken}, use{class: idle, milli: p.milli - taken})
		}
	}
	return all
}

// useOf returns the use that an allocation makes of a part of a device.
func (r *rig) useOf(p devicePart) use {
	job, state := r.jobs[p.slice.Job], p.slice.State
	u := use{class: goodput.Starting, milli: p.milli}
	if job != nil {
		u.owner, u.queue = job.Record.Owner.Name, job.Record.Spec.Queue
	}
	a, runs := job.GetAttempt(), state == messages.SliceState_SLICE_STATE_STARTED
	own := a != nil && messages.FromToken(a.Token) == messages.FromToken(p.slice.Token)
	switch {
	case state == messages.SliceState_SLICE_STATE_STOPPING, own && a.End != nil, runs && job != nil && !own:
		u.class = goodput.Stopping
	case runs && job == nil:
		u.class = goodput.Productive // the job's record is unreadable, so the owner is unknown
	case runs && a.StartedUnixMs > 0:
		u.class, u.began, u.token = goodput.Productive, a.StartedUnixMs, messages.FromToken(a.Token)
		u.saved = a.Saved.GetAtUnixMs()
	}
	return u
}

// sum adds to the sums of the cluster, an owner and a queue.
func (r *rig) sum(day int64, u *use, ms, capacity int64) {
	for kind, name := range []string{"", u.owner, u.queue} {
		key := sumKey{goodput.Kind(kind), day, name}
		if r.sums[key] == nil {
			r.sums[key] = &goodput.Amounts{}
		}
		if capacity > 0 {
			r.sums[key].Capacity += capacity * ms
			continue
		}
		r.sums[key].Of[u.class] += u.milli * ms
		if u.class == goodput.Productive && u.token != (topology.Token{}) {
			if r.did[u.token] == nil {
				r.did[u.token] = map[sumKey]int64{}
			}
			r.did[u.token][key] += u.milli * ms
			r.ran[u.token] = r.clock.WallMs()
		}
	}
}

// makeUp counts the time before a node's first report. The node's first state is assumed for that time, but no gang
// counts earlier than its start. Work before a checkpoint is never lost, so it does not count for the attempt.
func (r *rig) makeUp(id string) {
	now := r.clock.WallMs()
	r.sum(now/dayMs, &use{}, now-r.began, int64(3000*min(1, len(r.parts[id]))))
	for _, u := range r.uses(id) {
		from, part := r.began, u
		part.token = topology.Token{}
		if u.class == goodput.Productive && u.began > from {
			part.class = goodput.Starting
			r.sum(now/dayMs, &part, u.began-from, 0)
			from, part.class = u.began, u.class
		}
		if u.class == goodput.Productive && u.saved > from {
			r.sum(now/dayMs, &part, u.saved-from, 0)
			from = u.saved
		}
		r.sum(now/dayMs, &u, now-from, 0)
	}
}

// pass advances the clock one day at a time. A day ends only after every node has reported.
func (r *rig) pass(ms int64) {
	left := dayMs - r.clock.WallMs()%dayMs
	if ms >= left && len(r.joined) < len(rigIDs) {
		return
	}
	if ms > left {
		r.pass(left)
		r.pass(ms - left)
		return
	}
	for _, id := range sorted(r.joined) {
		day := r.clock.WallMs() / dayMs
		if len(r.parts[id]) > 0 {
			r.sum(day, &use{}, ms, 3000)
		}
		for _, u := range r.uses(id) {
			r.sum(day, &u, ms, 0)
		}
	}
	r.clock.now += time.Duration(ms) * time.Millisecond
}

// checkTime checks the present classes and the sums of all days.
func (r *rig) checkTime() {
	r.Helper()
	c := ask(r.m, CountAll{}).(*Census)
	var now [goodput.Classes]int64
	var spent goodput.Amounts
	for id := range r.joined {
		for _, u := range r.uses(id) {
			now[u.class] += u.milli
		}
	}
	for key, a := range r.sums {
		if key.kind == goodput.Cluster {
			spent.Plus(a)
		}
	}
	if c.InClass != now || c.Spent != spent || c.SpentSince != r.began || c.SpentUntil != r.clock.WallMs() {
		r.Fatalf("now\n%v\nwant\n%v\nspent since %d\n%v\nwant\n%v", c.InClass, now, c.SpentSince, c.Spent, spent)
	}
	q := &messages.GetEfficiency{Kind: messages.GpuTimeKind(r.number(3)), Days: int32(r.number(2))}
	kind := goodput.Kind(max(int(q.Kind)-1, 0))
	reply := ask(r.m, q).(*messages.GetEfficiencyReply)
	got := map[sumKey]goodput.Amounts{}
	for _, row := range reply.Time.Rows {
		one := goodput.Amounts{Capacity: row.CapacityMilliGpuMs}
		for _, a := range row.Amounts {
			one.Of[a.Class-1] += a.MilliGpuMs
			if a.Cause != 0 || goodput.Class(a.Class-1) == goodput.Lost {
				one.Lost[a.Cause] += a.MilliGpuMs
			}
		}
		if one != (goodput.Amounts{}) {
			got[sumKey{goodput.Kind(row.Kind - 1), row.Day, row.Name}] = one
		}
	}
	for key, a := range r.sums {
		old := q.Days > 0 && key.day <= r.clock.WallMs()/dayMs-int64(q.Days)
		if key.kind != kind || old || *a == (goodput.Amounts{}) {
			continue
		}
		if got[key] != *a {
			r.Fatalf("%v: %v is\n%v\nwant\n%v", q, key, got[key], *a)
		}
		delete(got, key)
	}
	if len(got) > 0 {
		r.Fatalf("%v: %v is not expected", q, got)
	}
	for _, n := range reply.Now {
		now[n.Class-1] -= n.MilliGpu
	}
	if now != [goodput.Classes]int64{} || reply.CapacityMilliGpu != 3000*r.withGPUs() {
		r.Fatalf("present sums are %v of %d", reply.Now, reply.CapacityMilliGpu)
	}
}

func (r *rig) withGPUs() (n int64) {
	for id := range r.joined {
		n += int64(min(1, len(r.parts[id])))
	}
	return n
}

// checkStocks checks the counts of nodes and of their GPUs.
func (r *rig) checkStocks() {
	r.Helper()
	c := ask(r.m, CountAll{}).(*Census)
	want := map[string]*Stock{}
	var phases [3]int
	var outs [outages]int
	for id, n := range r.nodes {
		phases[slices.Index([]string{"up", "dead", "unknown"}, n.Status.Phase)]++
		outs[n.Outage]++
		kind, kept := map[string]string{"n0": "a", "n1": "a", "n2": "b"}[id], r.keptOn(id)
		if len(r.parts[id]) > 0 && want[kind] == nil {
			want[kind] = &Stock{Type: kind}
		}
		for _, p := range r.parts[id] {
			of := &want[kind].Of
			switch {
			case n.Status.Phase != "up":
				of[StockUnreachable] += p.milli
			case p.what == "broken":
				of[StockFailed] += p.milli
			case p.what == "held":
				of[StockUsed] += p.milli
			case n.Outage == BackedOff:
				of[StockBackedOff] += p.milli
			case n.Outage != InService:
				of[StockClosed] += p.milli
			default:
				taken := min(kept, p.milli)
				kept -= taken
				of[StockKept] += taken
				of[StockFree] += p.milli - taken
			}
		}
	}
	var all []Stock
	for _, kind := range sorted(want) {
		all = append(all, *want[kind])
	}
	if !slices.Equal(c.Stocks, all) || !slices.Equal(c.Machines, phases[:]) || c.Outages != outs {
		r.Fatalf("counted\n%v %v %v\nwant\n%v %v %v", c.Stocks, c.Machines, c.Outages, all, phases, outs)
	}
}

// checkLevels checks how free GPUs are spread over zones, racks and nodes.
func (r *rig) checkLevels() {
	r.Helper()
	var want []LevelRoom
	for depth, level := range []string{"zone", "rack", "node"} {
		free, total := map[string]int64{}, map[string]int64{}
		for id, s := range r.seen {
			if s.Machine == nil {
				continue
			}
			place := s.Machine.Place[0]
			if depth > 0 {
				place += "/" + s.Machine.Place[1]
			}
			if depth > 1 {
				place += "/" + string(id)
			}
			total[place] += 3000 + 1000*int64(s.Machine.Broken)
			if s.Why != "" {
				continue
			}
			free[place] += 1000 * int64(s.Free.WholeGPUs)
			for _, n := range s.Free.Parts {
				free[place] += n
			}
		}
		room := LevelRoom{Level: level, Places: len(total)}
		for place, all := range total {
			room.Largest = max(room.Largest, free[place])
			if free[place] != all {
				room.Scattered += free[place]
			}
		}
		want = append(want, room)
	}
	if got := ask(r.m, CountAll{}).(*Census).Levels; !slices.Equal(got, want) {
		r.Fatalf("levels\n%v\nwant\n%v", got, want)
	}
}
