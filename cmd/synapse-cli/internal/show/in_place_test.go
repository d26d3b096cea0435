package show

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests what users see of restarts in place.

// TestSpares checks that the spares of a job are shown: their number in its request, and their nodes in its attempt.
func TestSpares(t *testing.T) {
	a := &messages.AttemptRecord{Run: 2, Spares: []*messages.Spare{{Node: "n7"}, {Node: "n9"}},
		Inherited: &messages.Inherited{Generation: 1, Cause: "n3 is lost",
			Swapped: []*messages.Swapped{{Node: "n3", By: "n8"}}}}
	status := &messages.JobStatus{Attempt: a, Record: &messages.JobRecord{Id: "j1", Spec: &messages.JobSpec{Name: "train",
		Restart: &messages.RestartSpec{InPlace: true, Limit: 3, Spares: 3}}}}
	var out strings.Builder
	if err := DescribeJob(&out, Style{}, status, nil); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"in place, up to 3; spare nodes: 3", "Spares:", "n7, n9", "n8 replaced n3"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in:\n%s", want, out.String())
		}
	}
	if o := attemptObject(a); strings.Join(o.Spares, " ") != "n7 n9" {
		t.Errorf("the object has the spares %v", o.Spares)
	}
}
