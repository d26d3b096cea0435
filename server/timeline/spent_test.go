package timeline

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// shown simulates a cluster of 8-GPU nodes as the Mirror sees it. It is also the Mirror's host and clock.
type shown struct {
	actor.Context
	actors.Host
	mirror       actor.Actor
	message, got any
	now          time.Duration
	runs         map[string]*messages.JobStatus // by node; each job uses a complete node
	attempts     uint64
}

// evening is an hour before the end of a day.
const evening = 1_700_000_000_000/86_400_000*86_400_000 + 23*3_600_000

func (c *shown) Now() actors.Instant                  { return actors.Instant(c.now) }
func (c *shown) WallMs() int64                        { return evening + c.now.Milliseconds() }
func (c *shown) After(time.Duration, *actor.PID, any) {}
func (c *shown) Count(string, int64)                  {}
func (c *shown) Took(string, time.Duration)           {}
func (c *shown) Message() any                         { return c.message }
func (c *shown) Self() *actor.PID                     { return actor.NewPID("here", "mirror") }
func (c *shown) Sender() *actor.PID                   { return c.Self() }
func (c *shown) Respond(answer any)                   { c.got = answer }
func (c *shown) Send(*actor.PID, any)                 {}

func newShown() *shown {
	c := &shown{runs: map[string]*messages.JobStatus{}}
	c.mirror = mirror.New(&actors.Ports{Constants: actors.DefaultConstants(), Clock: c, Host: c}, 1, []string{"rack"})
	return c
}

func (c *shown) ask(question any) any {
	c.message = question
	c.mirror.Receive(c)
	return c.got
}

// node shows a node: its job, and whether it reports.
func (c *shown) node(id, phase string) {
	all := &messages.Resources{MilliGpu: 8 * topology.WholeGPU}
	a, l := &messages.Announcement{Total: all}, &messages.LedgerReport{Total: all, Free: all}
	grant := &messages.Grant{}
	for i := range 8 {
		share := &messages.GpuShare{GpuId: fmt.Sprint("gpu-", i), Milli: topology.WholeGPU}
		a.Gpus = append(a.Gpus, &messages.Gpu{Id: share.GpuId, Type: "H100"})
		grant.Gpus = append(grant.Gpus, share)
	}
	if j := c.runs[id]; j != nil {
		l.Free = &messages.Resources{}
		l.Slices = []*messages.SliceReport{{Job: j.Record.Id, Token: j.Attempt.Token, Grants: []*messages.Grant{grant},
			State: messages.SliceState_SLICE_STATE_STARTED}}
	} else {
		l.FreeGpus = grant.Gpus
	}
	c.ask(mirror.NodeShown{Free: goodput.Unwanted, Status: &messages.NodeStatus{Phase: phase, Ledger: l,
		Record: &messages.NodeRecord{Id: id, Announcement: a, JoinedUnixMs: evening}}})
}

// step starts a job on a node, lets it pass the start barrier, or ends it, sometimes with lost work.
func (c *shown) step(id string, rng *rand.Rand) {
	j := c.runs[id]
	switch {
	case j == nil:
		c.attempts++
		j = &messages.JobStatus{Phase: messages.PhaseStarting, Record: &messages.JobRecord{Id: fmt.Sprint("j", c.attempts),
			Spec: &messages.JobSpec{Gang: &messages.GangSpec{ReplicasMin: 1}}},
			Attempt: &messages.AttemptRecord{Token: messages.ToToken(topology.Token{Epoch: 1, Counter: c.attempts}),
				CommittedUnixMs: c.WallMs(), Places: []*messages.Place{{Node: id}}}}
		c.runs[id] = j
	case j.Attempt.StartedUnixMs == 0:
		j.Attempt.StartedUnixMs, j.Phase = c.WallMs(), messages.PhaseRunning
	default:
		causes := []messages.Cause{messages.Cause_CAUSE_SUCCEEDED, messages.Cause_CAUSE_PREEMPTED,
			messages.Cause_CAUSE_MEMBER_FAILED}
		c.ask(mirror.RunEnded{Token: messages.FromToken(j.Attempt.Token), Cause: causes[rng.IntN(len(causes))]})
		c.runs[id] = nil
	}
	c.ask(mirror.JobShown{Status: j})
	c.node(id, []string{messages.NodeUp, messages.NodeDead}[rng.IntN(5)/4])
}

// efficiency returns the output of the efficiency command for all days: by class, and lost time by cause.
func (c *shown) efficiency() (all map[string]int64, capacity int64) {
	all = map[string]int64{}
	question := &messages.GetEfficiency{Kind: messages.GpuTimeKind_GPU_TIME_KIND_CLUSTER}
	for _, row := range c.ask(question).(*messages.GetEfficiencyReply).GetTime().GetRows() {
		capacity += row.CapacityMilliGpuMs
		for _, a := range row.Amounts {
			all[goodput.Words[a.Class-1]] += a.MilliGpuMs
			if a.Class == messages.GpuClass_GPU_CLASS_LOST {
				all["by "+messages.Word(a.Cause.String(), "CAUSE_")] += a.MilliGpuMs
			}
		}
	}
	return all, capacity
}

// spentIn returns the timeline's values for a time range in steps, added up like the output of efficiency.
func spentIn(t *testing.T, dir string, from, until, step int64) (all map[string]int64, capacity, ms int64) {
	t.Helper()
	all = map[string]int64{}
	if err := ReadSums(dir, from, until, step, func(s *Sum) error {
		if s.Read != nil {
			t.Errorf("a reading is told: %+v", s.Read)
		}
		if s.Time != nil {
			all, capacity, ms = added(all, s.Time.Of), capacity+s.Time.Capacity, ms+s.Time.Ms
			for cause, n := range s.Time.Lost { //order: each is independent
				all["by "+cause] += n
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	maps.DeleteFunc(all, func(_ string, n int64) bool { return n == 0 })
	return all, capacity, ms
}

// TestSpentIsEfficiency checks that the timeline's GPU time between any two sums equals the change of `efficiency`,
// also across midnight and for any step. The values must match exactly.
func TestSpentIsEfficiency(t *testing.T) {
	rng, dir, c := rand.New(rand.NewPCG(3, 4)), t.TempDir(), newShown()
	for i := range 5 {
		c.node(fmt.Sprint("n", i), messages.NodeUp)
	}
	type sample struct {
		at, capacity int64
		all          map[string]int64
	}
	var read []sample
	for range 200 {
		for range rng.IntN(6) {
			c.now += time.Duration(rng.IntN(20_000)) * time.Millisecond
			c.step(fmt.Sprint("n", rng.IntN(5)), rng)
			c.ask(mirror.WantsShown{Wants: goodput.Wants{Any: rng.IntN(2) == 0}})
		}
		c.now += time.Second
		s := SumOf(c.ask(mirror.CountAll{}).(*mirror.Census))
		s.AtMs = c.WallMs()
		if err := WriteSum(dir, s); err != nil {
			t.Fatal(err)
		}
		all, capacity := c.efficiency()
		read = append(read, sample{s.AtMs, capacity, all})
	}
	if read[len(read)-1].at < evening+3_600_000 || read[len(read)-1].all["lost"] == 0 {
		t.Fatalf("no day ended, or nothing was lost: %+v", read[len(read)-1])
	}
	for range 50 {
		a, b := rng.IntN(len(read)), rng.IntN(len(read))
		from, until := read[min(a, b)], read[max(a, b)]
		want := map[string]int64{}
		subtract(want, until.all, from.all)
		all, capacity, ms := spentIn(t, dir, from.at, until.at, 60_000+rng.Int64N(3_600_000))
		if !maps.Equal(all, want) || capacity != until.capacity-from.capacity || ms != until.at-from.at {
			t.Fatalf("from %d to %d: %d of %v in %d ms, not %v", from.at, until.at, capacity, all, ms, want)
		}
	}
}

// TestSpentIsKnown checks that readings of another ledger, of one that dropped a day, and after a clock that went
// back are not compared. Lines of older versions without readings are still read, and a missing reading loses no
// time.
func TestSpentIsKnown(t *testing.T) {
	dir := t.TempDir()
	line := func(at int64, read string) string {
		return fmt.Sprintf("\n{\"at\":%d,\"of\":1,\"gpus\":{\"used\":%d},\"promises\":{}%s}\n", at, at, read)
	}
	read := func(since, until, n int64) string {
		return fmt.Sprintf(`,"read":{"of":{"kept":%d},"capacity":%d,"since":%d,"until":%d}`, n, n, since, until)
	}
	text := line(10, "") + line(20, read(1, 20, 100)) + line(30, "") + line(40, read(1, 40, 300)) +
		line(50, read(2, 50, 400)) + line(60, read(2, 55, 350)) + line(70, read(2, 54, 360)) + line(80, read(2, 70, 361))
	if err := os.WriteFile(filepath.Join(dir, "000000000000010"+sumsSuffix), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	got := ""
	if err := ReadSums(dir, 0, 1000, 10, func(s *Sum) error {
		got += fmt.Sprintf("%d:%d", s.AtMs, s.GPUs["used"])
		if s.Time != nil {
			got += fmt.Sprintf("=%d/%d", s.Time.Of["kept"], s.Time.Ms)
		}
		got += " "
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if want := "10:10 20:20 30:30 40:40=200/20 50:50 60:60 70:70 80:80=1/16 "; got != want {
		t.Errorf("it tells %s, not %s", got, want)
	}
	c := &mirror.Census{Machines: []int{3, 1, 0}, SpentUntil: 7}
	if r := SumOf(c).Read; r == nil || r.Until != 7 {
		t.Errorf("with all machines heard it reads %+v", r)
	}
	c.Machines[2] = 1
	if r := SumOf(c).Read; r != nil {
		t.Errorf("with one that was not heard yet it reads %+v", r)
	}
}
