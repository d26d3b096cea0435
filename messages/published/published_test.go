package published

import (
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file tests the messages and fields of the last release.

// TestPublishedStandsInTheBaseline checks that the current baseline contains everything that was published.
func TestPublishedStandsInTheBaseline(t *testing.T) {
	now, err := os.ReadFile("../baseline.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(baseline) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(string(now), "\n"+line) {
			t.Errorf("published, and not in messages/baseline.txt: %s", line)
		}
	}
}

// without returns a version without the names that begin with one of these texts.
func without(names ...string) *Version {
	var kept []string
	for line := range strings.Lines(baseline) {
		name, _, _ := strings.Cut(line, " = ")
		for _, lacks := range names {
			if name == lacks || strings.HasPrefix(name, lacks+".") {
				line = ""
			}
		}
		kept = append(kept, line)
	}
	return Parse(strings.Join(kept, ""))
}

func TestStripsWhatIsNotKnown(t *testing.T) {
	full := func() *messages.Start {
		return &messages.Start{Order: &messages.Order{Epoch: 3},
			Rendezvous: &messages.Rendezvous{Address: "10.0.0.1", Port: 4000}}
	}
	want := full()
	want.Rendezvous.Port = 0
	v := without("synapse.v1.Rendezvous.port")
	got := full()
	if !v.Knows(got) || !v.Strip(got) || !proto.Equal(got, want) {
		t.Errorf("stripped to %v", got)
	}
	if v.Strip(got) {
		t.Error("stripped twice")
	}
	if last := full(); Last().Strip(last) && proto.Equal(last, want) {
		t.Error("the last version has a rendezvous port")
	}
}

func TestKnowsMessagesAndValues(t *testing.T) {
	v := without("synapse.v1.Requeue", "synapse.v1.Cause.CAUSE_DRAINED")
	for _, x := range []struct {
		message messages.Message
		known   bool
	}{
		{&messages.Requeue{Job: "j"}, false},
		{&messages.Cancel{Job: "j"}, true},
		{&messages.Stop{Cause: messages.Cause_CAUSE_CANCELLED}, true},
		{&messages.Stop{Cause: messages.Cause_CAUSE_DRAINED}, false},
		{&messages.AttemptRecord{End: &messages.End{Cause: messages.Cause_CAUSE_DRAINED}}, false},
	} {
		if got := v.Knows(x.message); got != x.known {
			t.Errorf("%T: known is %v", x.message, got)
		}
	}
}
