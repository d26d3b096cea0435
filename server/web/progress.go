package web

import (
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns how the page shows the progress of a job.

// done is the progress of a job, in words.
type done struct {
	Words   string `json:"words"`
	Steps   string `json:"steps,omitempty"`
	Metrics string `json:"metrics,omitempty"`
	Percent int32  `json:"percent"`        // -1: the total is not known
	Slow    string `json:"slow,omitempty"` // slow ranks
}

// doneOf returns nil if no step was reported.
func doneOf(p *messages.JobProgress) *done {
	if p.GetRanks() == 0 {
		return nil
	}
	d := &done{Words: messages.ProgressWords(p), Steps: messages.StepWords(p), Slow: messages.SlowWords(p), Percent: -1}
	if p.GetTotal() > 0 {
		d.Percent = p.GetPercent()
	}
	var metrics []string
	for _, m := range p.GetMetrics() {
		metrics = append(metrics, messages.OneLine(m.GetName()+" "+m.GetValue()))
	}
	d.Metrics = strings.Join(metrics, ", ")
	return d
}

// brief returns what a list shows of the progress.
func (d *done) brief() *done {
	if d == nil {
		return nil
	}
	return &done{Words: d.Words, Percent: d.Percent}
}
