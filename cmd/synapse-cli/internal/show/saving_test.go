package show

import (
	"encoding/json"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests what users see of acknowledged and missed checkpoints.

// TestSavedAndMissed checks the texts and the JSON of ended attempts: what was saved, what was lost after it, and which
// rank did not acknowledge.
func TestSavedAndMissed(t *testing.T) {
	const preempted, lost = messages.Cause_CAUSE_PREEMPTED, messages.Cause_CAUSE_MACHINE_LOST
	attempt := func(cause messages.Cause, saved *messages.Saved, m *messages.MissedSave) *messages.AttemptRecord {
		return &messages.AttemptRecord{
			Run: 2, Saved: saved, Missed: m, End: &messages.End{Cause: cause, RanMs: 3_600_000},
		}
	}
	const at = "step 40 of attempt 2, 2027-01-15T07:55:00Z, 5m ago"
	step := &messages.Saved{Step: 40, Request: 7, AtUnixMs: now - 300_000, RanMs: 3_000_000}
	for name, c := range map[string]struct {
		a                   *messages.AttemptRecord
		saved, missed, json string
	}{
		"acknowledged": {attempt(preempted, step, nil), at + "; 10m of work after it lost", "",
			`{"savedCheckpoint":{"step":40,"at":"2027-01-15T07:55:00Z"},"lostSeconds":600}`},
		"succeeded": {attempt(messages.Cause_CAUSE_SUCCEEDED, step, nil), at, "",
			`{"savedCheckpoint":{"step":40,"at":"2027-01-15T07:55:00Z"}}`},
		"late": {attempt(preempted, step, &messages.MissedSave{Request: 8, Cause: preempted, Late: true, Acknowledged: 1,
			Required: 2, Rank: 1}), at,
			"preempted, 1 of 2 ranks acknowledged in time, rank 1 did not; cost 10m of work",
			`{"savedCheckpoint":{"step":40,"at":"2027-01-15T07:55:00Z"},"lostSeconds":600,` +
				`"missedCheckpoint":{"cause":"preempted","late":true,"acknowledged":1,"required":2,"rank":1}}`},
		"never saved, and a node is lost": {attempt(lost, nil, &messages.MissedSave{Request: 8, Acknowledged: 0,
			Required: 2, Problem: "no"}), "",
			"asked by a user, 0 of 2 ranks acknowledged before the attempt ended, rank 0 did not; cost 1h of work; no",
			`{"lostSeconds":3600,"missedCheckpoint":{"late":false,"acknowledged":0,"required":2,"rank":0,"problem":"no"}}`},
		"different steps": {attempt(preempted, nil, &messages.MissedSave{Cause: preempted, Late: true, Acknowledged: 2,
			Required: 2, Rank: -1}), "",
			"preempted, 2 of 2 ranks acknowledged in time, with different steps; cost 1h of work",
			`{"lostSeconds":3600,"missedCheckpoint":{"cause":"preempted","late":true,"acknowledged":2,"required":2}}`},
	} {
		if got := saved(c.a, now); got != c.saved {
			t.Errorf("%s: saved %q, want %q", name, got, c.saved)
		}
		if got := missed(c.a); got != c.missed {
			t.Errorf("%s: missed %q, want %q", name, got, c.missed)
		}
		object, err := json.Marshal(savedObject(c.a.Saved, c.a.Missed, c.a.End.Cause, c.a.End.RanMs))
		if err != nil || string(object) != c.json {
			t.Errorf("%s: %s %v, want %s", name, object, err, c.json)
		}
	}
}
