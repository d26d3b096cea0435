package client

import (
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestUpdatesNameFlags checks that an error about a value of `update` names its flag instead of the API
// field.
func TestUpdatesNameFlags(t *testing.T) {
	fields := (&messages.Update{}).ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		if strings.HasPrefix(name, "set_") || slices.Contains([]string{"principal", "groups", "exempt"}, name) {
			continue // no flag sets this field
		}
		text := textOf(&messages.Outcome{Field: name, Text: "is wrong"})
		if name == "job" && text != "is wrong" || name != "job" && !strings.HasPrefix(text, "--") {
			t.Errorf("%s is shown as %q", name, text)
		}
	}
}
