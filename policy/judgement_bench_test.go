package policy

// This file has the benchmark of a pass that looks ahead.

import (
	"fmt"
	"math/rand"
	"testing"

	"github.com/yi-json/synapse/policy/estimate"
	"github.com/yi-json/synapse/topology"
)

// busy is a cluster in which every node is full, and a queue of bursts. One job ends in each round.
type busy struct {
	view  *topology.Tree
	queue *Queue
	runs  *Runs
	j     *Judgement
	r     *rand.Rand
	now   int64
	held  []Admission
	made  int
}

func newBusy(machines, jobs, bursts, shapes int, settings Settings) *busy {
	view := topology.NewTree([]string{"zone", "block", "rack"})
	x := &busy{view: view, queue: NewQueue(), r: rand.New(rand.NewSource(1))}
	cells := estimate.NewCells()
	x.runs = NewRuns(cells, 0)
	x.j = NewJudgement(settings, cells, x.runs)
	x.runs.Horizon(x.view, 0)
	for i := range machines {
		m := machine(i, 1)
		rack := i / 16
		m.Place = []string{fmt.Sprint("z", rack/200), fmt.Sprintf("b%03d", rack/20), fmt.Sprintf("r%05d", rack)}
		x.view.Join(m, m.Idle())
		for range 2 {
			x.made++
			limit := (3600 + x.r.Int63n(100_000)) * second
			slot := topology.Slot{Node: m.ID, Amount: gang(1, 4).Each}
			a := Admission{Job: topology.JobID(fmt.Sprintf("r%06d", x.made)), Estimate: limit / 2,
				Traits:    estimate.Traits{Pool: "h100", Size: 4000, Limit: limit},
				Placement: topology.Placement{Slots: []topology.Slot{slot}}}
			x.view.Take(a.Placement)
			x.runs.Admitted(&a, 0)
			x.runs.Began(a.Job, 0)
			x.held = append(x.held, a)
		}
	}
	for i := range jobs {
		x.add(i%bursts, shapes)
	}
	return x
}

// add adds a job of a burst to the queue.
func (x *busy) add(burst, shapes int) {
	x.made++
	shape := burst % shapes
	g := gang(int32(2+shape%10*7), 8)
	if shape%2 == 0 {
		g = gang(1, int64(4+shape/2%5))
	}
	g.Each.MilliCPU += int64(shape) * 10
	x.queue.Add(Waiting{Job: topology.JobID(fmt.Sprintf("w%06d", x.made)), Gang: g, Arrived: int64(x.made), Since: x.now,
		Owner: fmt.Sprint("u", burst/shapes), Limit: (600 + int64(burst)) * second})
}

// round ends one job, and then one of the jobs that started, so that the nodes stay as full as before.
func (x *busy) round() {
	x.now += second
	at := x.r.Intn(len(x.held))
	a := x.held[at]
	x.view.Give(a.Placement)
	x.j.Ended(a.Job, x.runs.Ended(a.Job, x.now, true))
	x.held[at] = x.held[len(x.held)-1]
	x.held = x.held[:len(x.held)-1]
}

func (x *busy) pass() {
	for _, a := range x.j.Plan(x.view, x.queue, x.now).Admit {
		x.runs.Began(a.Job, x.now)
		x.held = append(x.held, a)
	}
}

// BenchmarkJudgementPass measures a pass after the end of one job. 10,000 jobs wait in 2,000 bursts of 100 shapes, and
// every node is full.
func BenchmarkJudgementPass(b *testing.B) {
	for _, machines := range sizes(1000, 10000) {
		for _, promises := range []int{3, 100} {
			settings := DefaultSettings()
			if promises > 3 {
				settings.PromisesOnes, settings.PromisesGangs = promises/2, promises/2
			}
			x := newBusy(machines, 10_000, 2000, 100, settings)
			x.pass()
			b.Run(fmt.Sprintf("machines=%d/waiting=10000/promises=%d", machines, promises), func(b *testing.B) {
				for b.Loop() {
					b.StopTimer()
					x.round()
					b.StartTimer()
					x.pass()
				}
			})
		}
	}
}
