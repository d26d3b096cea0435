package sim

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// TestTraceNames: a trace goes by the name of a type and not by its package, so two types of this module that share a
// name are refused. Those of other modules have their package in the name.
func TestTraceNames(t *testing.T) {
	type Stop struct{}
	tr := newTrace()
	tr.kind(&messages.Stop{})
	tr.kind(&messages.Stop{})
	tr.kind(&actor.Stop{})
	tr.kind(Stop{}) // a value is no pointer
	defer func() {
		if text, is := recover().(string); !is || !strings.Contains(text, "messages.Stop") {
			t.Errorf("a second type of one name: %q", text)
		}
	}()
	tr.kind(&Stop{})
}
