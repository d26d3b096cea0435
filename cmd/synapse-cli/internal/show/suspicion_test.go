package show

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestSuspicion checks what `get nodes`, `describe node` and -o json show of the failures that count against a node.
func TestSuspicion(t *testing.T) {
	n := &messages.NodeStatus{Phase: "up", Record: &messages.NodeRecord{Id: "n1"}, Suspicion: &messages.Suspicion{
		Suspected: true, Failures: []*messages.NodeFailure{
			{Job: "j1", Owner: "ann", Class: messages.FailureClass_FAILURE_CLASS_GPU, Reason: "Xid 79\x1b[2J", AtUnixMs: 1e12},
			{Job: "j2", Owner: "bob", Class: messages.FailureClass_FAILURE_CLASS_NODE, Reason: "the node was lost",
				AtUnixMs: 1e12},
		}}}
	words := "suspected: 2 failures of jobs of 2 owners (gpu, node)"
	var out strings.Builder
	if err := Nodes(&out, Style{}, []*messages.NodeStatus{n}); err != nil || !strings.Contains(out.String(), words) {
		t.Error(out.String(), err)
	}
	out.Reset()
	if err := DescribeNode(&out, Style{NowMs: 1e12 + 1000}, n); err != nil {
		t.Fatal(err)
	}
	text := strings.Join(strings.Fields(out.String()), " ")
	for _, want := range []string{"Failures of jobs " + words, "j1 ann gpu Xid 79", "j2 bob node the node was lost"} {
		if !strings.Contains(text, want) {
			t.Errorf("%s\nlacks %q", out.String(), want)
		}
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("a reason steers the terminal")
	}
	object, _ := json.Marshal(nodeObject(n))
	if !strings.Contains(string(object), `"suspicion":{"suspected":true,`+
		`"failures":[{"job":"j1","owner":"ann","class":"gpu"`) {
		t.Errorf("%s", object)
	}
}
