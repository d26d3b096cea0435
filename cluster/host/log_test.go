package host

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/actors"
)

// TestTags checks the tags by which users know some lines.
func TestTags(t *testing.T) {
	for _, debug := range []bool{false, true} {
		var told strings.Builder
		log := NewLog(&told, debug)
		calls := actors.Tagged{To: log, Tag: actors.TagCalls}
		log.Info("n%d is here", 1)
		log.Warn("n%d is odd", 2)
		log.Error("n%d is refused", 3)
		calls.Info("Heard n%d", 4)
		calls.Debug("Heard n%d again", 5)
		want := []string{"n1 is here", "[WARN] n2 is odd", "[ERROR] n3 is refused", "[GRPC] Heard n4",
			"[GRPC] Heard n5 again"}
		if !debug {
			want = want[:4]
		}
		lines := strings.Split(strings.TrimSuffix(told.String(), "\n"), "\n")
		if len(lines) != len(want) {
			t.Fatalf("debug %v: %q", debug, lines)
		}
		for i, line := range lines { // the date and the time come first
			if fields := strings.SplitN(line, " ", 3); len(fields) != 3 || fields[2] != want[i] {
				t.Errorf("debug %v: %q, want %q", debug, line, want[i])
			}
		}
	}
}
