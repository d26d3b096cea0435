package web

import (
	"net/http"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests the filter by labels, and what a list shows of a running job.

// TestLabelled checks that a page gets the IDs of the jobs with a label, and no label, and that a malformed label is
// refused.
func TestLabelled(t *testing.T) {
	d := serve(t, &scheduler{}).enter()
	for label, want := range map[string]string{
		"team%3Dvision": `["j1","j2"]`, "team%3Dvision,env%3Dprod": `["j1","j2"]`, "team%3D": `["j1","j2"]`,
		"team": "", "": "", "%3Dvision": "",
	} {
		status := http.StatusOK
		if want == "" {
			want, status = "label: write KEY=VALUE, such as team=vision", http.StatusBadRequest
		}
		if answer, text := d.ask("GET", "/matches?label="+label, "", nil); answer.StatusCode != status || text != want+"\n" {
			t.Errorf("%s: %s %s", label, answer.Status, text)
		}
	}
}

// TestRunningRow checks the start, the limit, the array and the progress of a row. The event of a start has no start
// time yet, and a later event must not move the start.
func TestRunningRow(t *testing.T) {
	j := confidential()
	j.Record.Spec.TimeLimitMs = 60_000
	j.Record.Spec.Element = &messages.Element{Array: "j0"}
	h := newHub()
	h.note(&messages.Event{Job: j, AtUnixMs: 5_000})
	j.Progress = &messages.JobProgress{Step: 1, Total: 4, Percent: 25, Ranks: 1}
	h.note(&messages.Event{Job: j, AtUnixMs: 9_000})
	row := h.things["job/j1"].value.(jobRow)
	if row.Started != 5_000 || row.Limit != 60_000 || row.Parent != "j0" || row.Done == nil || row.Done.Percent != 25 ||
		row.Done.Steps != "" {
		t.Errorf("%+v of %+v", row, row.Done)
	}
	j.Attempt = &messages.AttemptRecord{StartedUnixMs: 4_500}
	h.note(&messages.Event{Job: j, AtUnixMs: 10_000})
	if row := h.things["job/j1"].value.(jobRow); row.Started != 4_500 {
		t.Errorf("a written start is shown as %d", row.Started)
	}
	j.Record.Runs, j.Attempt = 1, nil
	h.note(&messages.Event{Job: j, AtUnixMs: 20_000})
	if row := h.things["job/j1"].value.(jobRow); row.Started != 20_000 {
		t.Errorf("the next attempt starts at %d", row.Started)
	}
}
