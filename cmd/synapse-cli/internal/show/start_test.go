package show

import (
	"bytes"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestStarts checks that a future start is a time of day, with the date if it is another day. A job without a start
// time has a reason.
func TestStarts(t *testing.T) {
	const hour = 3600_000
	now := int64(20 * hour) // on a Thursday
	with := func(id string, told *messages.Prospect) *messages.JobStatus {
		return &messages.JobStatus{
			Phase: "queued", Reason: "needs 64 GPUs", Record: &messages.JobRecord{Id: id, Spec: total(64)}, Prospect: told,
		}
	}
	list := []*messages.JobStatus{
		with("train-7f", &messages.Prospect{
			Basis: messages.Basis_BASIS_LIMITS, AtUnixMs: now + hour, LatestUnixMs: now + 5*hour, Kept: []string{"n1", "n2"},
		}),
		with("eval-2", &messages.Prospect{
			Basis: messages.Basis_BASIS_LEARNED, AtUnixMs: now + 3*hour, LikelyUnixMs: now + 200*hour,
		}),
		with("big", &messages.Prospect{Basis: messages.Basis_BASIS_NONE, Ahead: 3}),
		{Phase: "held", Record: &messages.JobRecord{
			Id: "kept", Spec: total(8), Hold: &messages.Deed{By: &messages.Principal{Name: "ops"}},
		}},
	}
	var b bytes.Buffer
	if err := Starts(&b, Style{NowMs: now}, list); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"expected 21:00Z (in 1h), guaranteed by Fri 01:00Z (time limits) unless a node is lost\n",
		"expected 23:00Z (in 3h, estimate), 9 of 10 similar jobs start by 1970-01-10 04:00Z\n", "unknown · 3 jobs ahead\n",
		"Held by ops\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("%q is not in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := Starts(&b, Style{NowMs: now, Format: "json"}, list[:1]); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), `"start": {
          "basis": "limits",
          "at": "1970-01-01T21:00:00Z",
          "latest": "1970-01-02T01:00:00Z",
          "reservedNodes": [
            "n1",
            "n2"
          ],
          "ahead": 0
        }`) {
		t.Error(b.String())
	}
	b.Reset()
	if err := DescribeJob(&b, Style{NowMs: now}, list[0], nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "Start:        expected 21:00Z (in 1h), guaranteed by Fri 01:00Z") ||
		!strings.Contains(b.String(), "Reserved:     n1, n2 for this job until it starts") {
		t.Error(b.String())
	}
}
