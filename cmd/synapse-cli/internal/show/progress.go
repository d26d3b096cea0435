package show

import (
	"fmt"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file prints the progress of a job.

// progress is the progress of an attempt in -o json. It is that of the slowest rank.
type progress struct {
	Percent       *int32            `json:"percent,omitempty"` // nil: the total is unknown
	Step          int64             `json:"step"`
	Total         int64             `json:"total,omitempty"`
	FastestStep   int64             `json:"fastestStep"`
	StepsPerSec   float64           `json:"stepsPerSecond,omitempty"`
	SecondsLeft   int64             `json:"secondsLeft,omitempty"`
	ChangedAgo    int64             `json:"lastChangeSecondsAgo"`
	Ranks         int32             `json:"ranks"` // ranks that report a step
	Metrics       map[string]string `json:"metrics,omitempty"`
	NotUnderstood int64             `json:"notUnderstood,omitempty"`
	Slow          []slowRank        `json:"slow,omitempty"` // the slowest of the slow ranks
	SlowRanks     int32             `json:"slowRanks,omitempty"`
}

// slowRank is a rank that is slower than the others, in -o json.
type slowRank struct {
	Rank        int32   `json:"rank"`
	Node        string  `json:"node"`
	OfMedian    float64 `json:"ofMedian"` // its time for a step, divided by the median
	Steps       int64   `json:"steps"`    // steps since it became slow
	StepSeconds float64 `json:"stepSeconds"`
}

func progressObject(p *messages.JobProgress) *progress {
	if p == nil {
		return nil
	}
	o := &progress{
		Step: p.GetStep(), Total: p.GetTotal(), FastestStep: p.GetMostStep(), Ranks: p.GetRanks(),
		StepsPerSec: float64(p.GetMilliRate()) / 1000, SecondsLeft: p.GetLeftMs() / 1000,
		ChangedAgo: p.GetChangedMsAgo() / 1000, NotUnderstood: p.GetGarbage(),
	}
	o.SlowRanks = p.GetSlowRanks()
	for _, r := range p.GetSlow() {
		o.Slow = append(o.Slow, slowRank{r.GetRank(), r.GetNode(), float64(r.GetPercent()) / 100, r.GetSteps(),
			float64(r.GetStepUs()) / 1e6})
	}
	if p.GetTotal() > 0 {
		percent := p.GetPercent()
		o.Percent = &percent
	}
	for _, m := range p.GetMetrics() {
		if o.Metrics == nil {
			o.Metrics = map[string]string{}
		}
		o.Metrics[m.GetName()] = m.GetValue()
	}
	return o
}

// describeProgress prints the progress of a job: the range of its ranks, the rate of the slowest, and the last
// change.
func describeProgress(p *page, of *messages.JobProgress) {
	if of.GetRanks() > 0 {
		p.line("Progress", messages.ProgressWords(of))
		p.line("Steps", messages.StepWords(of))
		p.line("Slow", messages.SlowWords(of))
	}
	var metrics []string
	for _, m := range of.GetMetrics() {
		metrics = append(metrics, m.GetName()+" "+m.GetValue())
	}
	p.line("Metrics", strings.Join(metrics, ", "))
	if n := of.GetGarbage(); n > 0 {
		p.line("Ignored", fmt.Sprintf("%d progress reports that were not understood", n))
	}
}

// progress returns the cell of a list. A job that hangs has no remaining time.
func (j job) progress() string {
	p := j.GetProgress()
	switch {
	case j.GetStall() == nil:
		return orDash(messages.ProgressWords(p))
	case p.GetTotal() > 0:
		return fmt.Sprintf("stalled at %d%%", p.GetPercent())
	}
	return fmt.Sprintf("stalled at %d", j.GetStall().GetStep())
}
