package hang

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file describes a hang in one sentence.

const (
	// maxSpans limits the ranges of ranks in a sentence.
	maxSpans = 4
	// Prefix begins the sentence.
	Prefix = "stalled: "
)

// Describe returns the finding for a record and for people. nowMs is the leader's wall clock.
func Describe(c Case, f Finding, nowMs int64) *messages.Stall {
	s := &messages.Stall{Rank: -1, Why: f.Why, Step: c.step()}
	if f.Rank < 0 {
		s.SinceUnixMs = before(nowMs, f.Silent)
		s.Text = fmt.Sprintf("%sno rank of %d has made progress since %s; no rank stands out", Prefix, c.Tasks,
			messages.Moment(s.SinceUnixMs, nowMs))
		return s
	}
	r := c.Ranks[f.Rank]
	s.Rank, s.Node, s.Wait, s.Call = r.Rank, r.Node, r.Wait, r.Call
	since := r.Quiet
	if since == 0 {
		since = r.Silent
	}
	s.SinceUnixMs = before(nowMs, since)
	s.Text = fmt.Sprintf("%srank %d on %s %s since %s", Prefix, r.Rank, r.Node, does(r),
		messages.Moment(s.SinceUnixMs, nowMs))
	if others := c.others(r.Rank); others != "" {
		s.Text += "; " + others
	}
	return s
}

func before(nowMs int64, d time.Duration) int64 { return max(nowMs-d.Milliseconds(), 0) }

// does says what a rank does, as a verb.
func does(r Rank) string {
	in := ""
	if r.Call != "" {
		in = " in " + r.Call
	}
	switch r.Wait {
	case messages.Wait_WAIT_STOPPED:
		return "is stopped"
	case messages.Wait_WAIT_RUNS:
		return "uses its CPU without a step"
	case messages.Wait_WAIT_LOCK:
		return "waits for a lock" + in
	case messages.Wait_WAIT_SLEEP:
		return "sleeps" + in
	case messages.Wait_WAIT_DISK:
		return "waits for a disk" + in
	}
	return "waits" + in
}

// step returns the lowest step of the ranks.
func (c Case) step() int64 {
	least := int64(-1)
	for _, r := range c.Ranks {
		if r.Reports && (least < 0 || r.Step < least) {
			least = r.Step
		}
	}
	return max(least, 0)
}

// others names the other ranks in ranges.
func (c Case) others(culprit int32) string {
	var ranks []int32
	for _, r := range c.Ranks {
		if r.Rank != culprit {
			ranks = append(ranks, r.Rank)
		}
	}
	switch {
	case c.Tasks < 2:
		return ""
	case len(ranks)+1 < c.Tasks:
		return fmt.Sprintf("%d other ranks wait for it", c.Tasks-1)
	case len(ranks) == 1:
		return fmt.Sprintf("rank %d waits for it", ranks[0])
	}
	slices.Sort(ranks)
	spans := messages.Spans(ranks)
	if len(spans) > maxSpans {
		return fmt.Sprintf("%d other ranks wait for it", len(ranks))
	}
	return "ranks " + strings.Join(spans, ", ") + " wait for it"
}
