// Package progress determines how far a task has got from what the task reports: lines of a file, lines of its output,
// or requests of the Kubeflow Trainer progress protocol. All of them feed one model. The package never trusts these
// reports: they are bounded, and a report that it does not understand is counted but changes nothing else.
package progress

import (
	"slices"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file contains the model: what is known about the progress of one task.

const (
	// pointEvery is the time between the points from which the rate is computed.
	pointEvery = 10 * time.Second
	// maxPoints bounds the number of points, so that the rate covers only the last minutes.
	maxPoints = 32
	// maxWorks bounds the number of reported times of work from which the mean is computed.
	maxWorks = 20
	// maxGaps bounds the number of times between two changes that are kept.
	maxGaps = 32
	// lateFactor is the number of usual times between two changes after which a task is late.
	lateFactor = 4
	// maxPause bounds an announced pause.
	maxPause = time.Hour
)

// Report is one report of a task.
type Report struct {
	Step    int64
	HasStep bool
	Total   int64 // 0: the report has no total
	Metrics []Metric
	WorkUs  int64  // time of the task's own work in this step, in microseconds; 0: the report has none
	Pause   string // the reason of a pause that begins now; empty: the task works
}

// Metric is a named value, as text, that a task reports with its step.
type Metric struct{ Name, Value string }

// point is a step and the time at which it was reported, in nanoseconds of a monotonic clock.
type point struct{ at, step int64 }

// Model holds what is known about the progress of one task of one attempt. The zero Model knows nothing.
type Model struct {
	last    point
	known   bool // a step was reported
	total   int64
	points  []point // in the order of their times; the rate is measured from the first one
	garbage int64
	metrics []Metric // in the order in which they were first reported
	changed bool     // since the last call of Changed
	gaps    []int64  // the last times between two changes of the step, in nanoseconds
	works   []int64  // the last reported times of work, in microseconds
	pause   point    // when an announced pause began; at 0: there is none
	why     string   // its reason
}

// Observe adds a report. now is its time on a monotonic clock, in nanoseconds. If the step is smaller than the last
// one, the task has resumed from an earlier step, and the measurement of the rate starts again.
func (m *Model) Observe(now int64, r Report) {
	if r.Step < 0 || r.Step > messages.MaxSteps || r.Total < 0 || r.Total > messages.MaxSteps {
		m.Garbage()
		return
	}
	if r.Total > 0 && r.Total != m.total {
		m.total, m.changed = r.Total, true
	}
	for _, one := range r.Metrics {
		m.measure(one)
	}
	m.announce(now, r.Pause)
	if r.HasStep {
		m.work(r)
		m.step(point{now, r.Step})
	}
}

func (m *Model) step(p point) {
	switch {
	case m.known && p.step == m.last.step:
		return
	case !m.known || p.step < m.last.step:
		m.points = append(m.points[:0], p)
	case p.at-m.points[len(m.points)-1].at >= int64(pointEvery):
		if len(m.points) == maxPoints {
			m.points = slices.Delete(m.points, 0, 1)
		}
		m.points = append(m.points, p)
	}
	if m.known {
		if len(m.gaps) == maxGaps {
			m.gaps = slices.Delete(m.gaps, 0, 1)
		}
		m.gaps = append(m.gaps, p.at-m.last.at)
	}
	m.last, m.known, m.changed = p, true, true
}

// work keeps the time of the task's own work in a step. Each step counts once.
func (m *Model) work(r Report) {
	if r.WorkUs <= 0 || m.known && r.Step == m.last.step {
		return
	}
	if m.known && r.Step < m.last.step {
		m.works = nil
	}
	if len(m.works) == maxWorks {
		m.works = slices.Delete(m.works, 0, 1)
	}
	m.works = append(m.works, min(r.WorkUs, messages.MaxStepUs))
}

// Pace returns the mean time for a step, or nil if it is not known yet.
func (m *Model) Pace() *messages.RankPace {
	if !m.known || m.last.step == m.points[0].step {
		return nil
	}
	p := &messages.RankPace{Step: m.last.step}
	p.StepUs = min((m.last.at-m.points[0].at)/(m.last.step-m.points[0].step)/1000, messages.MaxStepUs)
	for _, w := range m.works {
		p.WorkUs += w / int64(len(m.works))
	}
	return p
}

// announce begins or ends an announced pause. Every report without a pause ends it.
func (m *Model) announce(now int64, why string) {
	if len(why) > messages.MaxPauseBytes || !messages.Shows(why) {
		why = "other"
	}
	if why != "" && m.pause.at == 0 {
		m.pause.at = now
	}
	if m.why = why; why == "" {
		m.pause.at = 0
	}
}

// Pause returns the reason of the pause that the task has announced; empty: there is none.
func (m *Model) Pause(now int64) string {
	if m.pause.at == 0 || now-m.pause.at > int64(maxPause) {
		return ""
	}
	return m.why
}

// Late reports whether the step has not changed since a time for longer than usual, and for at least the floor. It does
// not before the step has changed twice, because the first steps can take any time. Steps may be uneven: the longest
// time between two of the last changes also counts as usual.
func (m *Model) Late(now, since int64, floor time.Duration) bool {
	if len(m.gaps) < 2 {
		return false
	}
	sum := int64(0)
	for _, gap := range m.gaps {
		sum += gap / int64(len(m.gaps))
	}
	usual := max(lateFactor*sum, slices.Max(m.gaps)/2*3, int64(floor))
	return now-max(since, m.last.at) >= usual
}

// Reports returns whether the task has reported two changes of its step.
func (m *Model) Reports() bool { return len(m.gaps) >= 2 }

// measure keeps the newest value of a metric. New names beyond the limit are ignored.
func (m *Model) measure(one Metric) {
	if one.Name == "" || !messages.Shows(one.Name) || !messages.Shows(one.Value) {
		m.Garbage()
		return
	}
	i := slices.IndexFunc(m.metrics, func(k Metric) bool { return k.Name == one.Name })
	switch {
	case i < 0 && len(m.metrics) < messages.MaxMetrics:
		m.metrics, m.changed = append(m.metrics, one), true
	case i >= 0 && m.metrics[i].Value != one.Value:
		m.metrics[i], m.changed = one, true
	}
}

// Garbage counts a report that was not understood.
func (m *Model) Garbage() {
	if m.garbage < messages.MaxSteps {
		m.garbage, m.changed = m.garbage+1, true
	}
}

// Repeat makes the next call of Changed return true if anything is known.
func (m *Model) Repeat() { m.changed = m.changed || m.known || m.garbage > 0 || len(m.metrics) > 0 }

// Changed reports whether anything has changed since its last call.
func (m *Model) Changed() bool {
	changed := m.changed
	m.changed = false
	return changed
}

// Rate returns the rate over the last minutes in thousandths of a step per second, or 0 if it is not known yet. The
// measurement ends at the last change of the step, so a task that has stopped does not seem to become slower.
func (m *Model) Rate() int64 {
	if !m.known {
		return 0
	}
	first := m.points[0]
	took := m.last.at - first.at
	if took <= 0 {
		return 0
	}
	rate := float64(m.last.step-first.step) * 1e12 / float64(took)
	return int64(min(rate, messages.MaxSteps))
}

// Message returns what is known, without the ID of the task.
func (m *Model) Message() *messages.TaskProgress {
	t := &messages.TaskProgress{Garbage: m.garbage, Total: m.total}
	if m.known {
		t.Step, t.ChangedNs, t.MilliRate, t.Pace = m.last.step, m.last.at, m.Rate(), m.Pace()
	}
	for _, one := range m.metrics {
		t.Metrics = append(t.Metrics, &messages.Metric{Name: one.Name, Value: one.Value})
	}
	return t
}
