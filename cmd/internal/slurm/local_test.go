package slurm

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/cmd/internal/command"
)

// TestLocalFields checks that command.LocalFields names exactly the fields that depend on the time zone of the user.
func TestLocalFields(t *testing.T) {
	zone := time.Local
	t.Cleanup(func() { time.Local = zone })
	e := Of(shownJob(), at(1800))
	for _, f := range QueueFields() {
		if f.Letter == 0 || f.Of == nil {
			continue
		}
		time.Local = time.FixedZone("", 3600)
		east := f.Of(e)
		time.Local = time.FixedZone("", -3600)
		if got, want := f.Of(e) != east, strings.IndexByte(command.LocalFields, f.Letter) >= 0; got != want {
			t.Errorf("%%%c depends on the time zone: %v, but LocalFields says %v", f.Letter, got, want)
		}
		format := "%i %.18" + string(f.Letter)
		if got := command.Local(format); got != (f.Of(e) != east) {
			t.Errorf("Local(%q) is %v", format, got)
		}
	}
}
