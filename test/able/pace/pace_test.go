package pace

import (
	"testing"
	"time"
)

// TestRounded checks that any slower machine gets the next greater factor, and that the factor is bounded.
func TestRounded(t *testing.T) {
	for cost, want := range map[time.Duration]int{
		0: 1, usual: 1, usual + 1: 2, 2 * usual: 2, 3 * usual: 4, 5 * usual: 8, 9 * usual: 16, 1000 * usual: most,
	} {
		if got := Rounded(cost); got != want {
			t.Errorf("for a start of %s: factor %d, want %d", cost, got, want)
		}
	}
}

// TestMeasure checks that starting processes takes time, and that a machine with a given factor measures nothing.
func TestMeasure(t *testing.T) {
	if cost := Measure(); cost <= 0 {
		t.Errorf("a start took %s", cost)
	}
	t.Setenv(Variable, "4")
	if got := Of(time.Second); Factor() == 4 && got != 4*time.Second {
		t.Errorf("a second is %s", got)
	}
}
