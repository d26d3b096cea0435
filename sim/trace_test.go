package sim

import (
	"strings"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/messages"
)

// TestTraceNames checks that two types of this module with one name are rejected, because a trace uses the name of a
// type without its package. Types of other modules have their package in the name.
func TestTraceNames(t *testing.T) {
	type Stop struct{}
	tr := newTrace()
	tr.kind(&messages.Stop{})
	tr.kind(&messages.Stop{})
	tr.kind(&actor.Stop{})
	tr.kind(Stop{}) // a value is no pointer
	defer func() {
		if text, is := recover().(string); !is || !strings.Contains(text, "messages.Stop") {
			t.Errorf("a second type with the same name was accepted: %q", text)
		}
	}()
	tr.kind(&Stop{})
}
