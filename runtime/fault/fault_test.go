package fault

import (
	"errors"
	"fmt"
	"testing"
)

// TestOf checks that the fault nearest to the cause counts, and that an error without one has the fault Unknown.
func TestOf(t *testing.T) {
	cause := errors.New("cause")
	for _, c := range []struct {
		err  error
		want Fault
	}{
		{nil, Unknown},
		{cause, Unknown},
		{OfJob(cause), Job},
		{OfMachine(fmt.Errorf("around: %w", cause)), Machine},
		{fmt.Errorf("around: %w", OfJob(cause)), Job},
		{OfMachine(fmt.Errorf("around: %w", OfJob(cause))), Job},
		{errors.Join(cause, OfMachine(cause)), Machine},
	} {
		if got := Of(c.err); got != c.want {
			t.Errorf("%v: %q, not %q", c.err, got, c.want)
		}
		if c.err != nil && !errors.Is(c.err, cause) {
			t.Errorf("%v has lost its cause", c.err)
		}
	}
	if OfJob(nil) != nil || OfMachine(nil) != nil {
		t.Error("nothing is an error now")
	}
}
