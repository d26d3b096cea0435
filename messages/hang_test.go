package messages

import (
	"strings"
	"testing"
)

// TestHangSpec checks which settings about hangs are refused, with the name of the field.
func TestHangSpec(t *testing.T) {
	for field, h := range map[string]*HangSpec{
		"":              {Then: HangAction_HANG_ACTION_RESTART, FloorMs: 1000, Dump: 10},
		"hang.floor_ms": {FloorMs: 999},
		"hang.dump":     {Dump: 9},
		"hang.then":     {Then: 4},
	} {
		err := (&JobSpec{Hang: h}).validHang()
		if (field == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), field) {
			t.Errorf("%v: %v, want %q", h, err, field)
		}
	}
}
