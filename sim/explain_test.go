package sim

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file tests that explain requests cost the Scheduler nothing. `go test ./sim -run TestExplainBeside
// -explain-machines 10000` uses a large cluster. BENCH=ExplainBeside measures the duration of passes next to explain
// requests.

var explainMachines = flag.Int("explain-machines", 100, "how many machines TestExplainBeside has")

// TestExplainBeside submits 100 gangs a second and sends 50 explain requests a second about jobs that wait or would
// wait. All requests must be answered. The Scheduler must receive exactly the messages that it receives without explain
// requests.
func TestExplainBeside(t *testing.T) {
	alone, _ := besideExplains(t, 0)
	beside, answers := besideExplains(t, 50)
	if want := 50 * int(explainFor/time.Second); answers != want {
		t.Errorf("%d of %d explain requests were answered", answers, want)
	}
	for kind, n := range alone { //order: each by itself
		if slices.Contains(byChance, kind) && beside[kind] > 0 {
			beside[kind] = n
		}
	}
	if !maps.Equal(alone, beside) {
		t.Errorf("the Scheduler receives\n%v, and with explain requests\n%v", alone, beside)
	}
	if alone["*Submit"] == 0 {
		t.Errorf("no gang was submitted: %v", alone)
	}
}

const explainFor = 4 * time.Second

// byChance lists messages that stand for all changes since the last one. Their number depends on the order of the
// actors, which every additional message changes.
var byChance = []string{"PlanNow", "Reported", "ShowAgain", "TellAgain"}

// besideExplains returns how often the Scheduler received each kind of message, with this many explain requests a
// second.
func besideExplains(t *testing.T, perSecond int) (sent map[string]int, answers int) {
	machines := *explainMachines
	w, err := NewWorld(Options{Seed: 1, World: "small", Plain: true, Machines: machines, PerRack: 16, Unchecked: true})
	if err != nil {
		t.Fatal(err)
	}
	w.RunFor(15 * time.Second)
	gang := func(replicas int, runs time.Duration) *messages.JobSpec {
		return &messages.JobSpec{
			Name: "gang", Queue: "default", Image: "host", Command: Script(runs, 0), Restart: &messages.RestartSpec{},
			Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 20},
			Gang: &messages.GangSpec{ReplicasMin: int32(replicas), ReplicasMax: int32(replicas)},
		}
	}
	whole := gang(1, time.Minute) // the first job takes one node
	whole.Each.MilliCpu, whole.Nodes = 96_000, []string{string(w.at(1).id)}
	w.Submit(whole)
	var waiting []*Order
	for range 20 {
		waiting = append(waiting, w.Submit(whole))
	}
	w.RunFor(5 * time.Second)
	sent = map[string]int{}
	w.engine.watch = func(m *mailbox, message any) {
		if m.kind == actors.KindScheduler {
			sent[nameOf(unwrapped(message))]++
		}
	}
	began := w.Now()
	each := func(perSecond int, do func(i int)) {
		for i := range perSecond * int(explainFor/time.Second) {
			w.At(began+time.Duration(i)*time.Second/time.Duration(perSecond), func() { do(i) })
		}
	}
	each(100, func(int) { w.Submit(gang(2, 100*time.Millisecond)) })
	if perSecond > 0 {
		each(perSecond, func(i int) {
			ask := &messages.ExplainJob{Principal: anonymous, Job: waiting[i%len(waiting)].ID()}
			if i%2 == 0 {
				ask = &messages.ExplainJob{Principal: anonymous, Spec: whole}
			}
			w.Ask(actors.MirrorPath, ask, func(m messages.Message) {
				if r := m.(*messages.ExplainJobReply); r.Outcome.GetCode() == messages.Code_CODE_OK && r.Text != "" {
					answers++
				}
			})
		})
	}
	w.RunFor(explainFor + 10*time.Second)
	return sent, answers
}
