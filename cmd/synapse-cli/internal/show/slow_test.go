package show

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestSlowNodes checks the list of nodes with slow ranks, their line in `describe`, and -o json.
func TestSlowNodes(t *testing.T) {
	j := training()[0]
	j.Progress.Slow = []*messages.SlowRank{{Rank: 17, Node: "n2", Percent: 135, Steps: 212, StepUs: 1_350_000}}
	j.Progress.SlowRanks = 3
	nodes := []*messages.NodeStatus{{Record: &messages.NodeRecord{Id: "n1"}}, {Record: &messages.NodeRecord{Id: "n2"}}}
	var out strings.Builder
	if err := SlowNodes(&out, Style{}, nodes, []*messages.JobStatus{j}); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	if !strings.Contains(text, "RANK OF MEDIAN STEPS n2 ") || !strings.HasSuffix(text, " 17 1.35 212") {
		t.Error(out.String())
	}
	out.Reset()
	if err := SlowNodes(&out, Style{Quiet: true}, nodes, []*messages.JobStatus{j}); err != nil || out.String() != "n2\n" {
		t.Errorf("-q prints %q, %v", out.String(), err)
	}
	out.Reset()
	want := "Slow: rank 17 on n2 needs 1.35 times the median time of a step, for 212 steps; and 2 more"
	if err := DescribeJob(&out, Style{}, j, nil); err != nil ||
		!strings.Contains(strings.Join(strings.Fields(out.String()), " "), want) {
		t.Error(out.String(), err)
	}
	object, _ := json.Marshal(jobObject(j, 0))
	if !strings.Contains(string(object), `"ofMedian":1.35,"steps":212,"stepSeconds":1.35}],"slowRanks":3`) {
		t.Errorf("%s", object)
	}
}
