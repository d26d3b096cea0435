package gateway

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestTimesOfParts checks that each part has the last time before it and all times within it, also if a page repeats a
// time of the page before.
func TestTimesOfParts(t *testing.T) {
	at := func(offsets ...int64) (all []*messages.LogTime) {
		for _, offset := range offsets {
			all = append(all, &messages.LogTime{Offset: offset, UnixMs: offset * 10})
		}
		return all
	}
	o := &output{}
	for _, step := range []struct {
		times    []*messages.LogTime
		from, to int64
		want     string
	}{
		{nil, 0, 10, "[]"},
		{at(5, 20), 10, 15, "[5]"}, {nil, 15, 30, "[5 20]"}, {at(20, 40), 30, 35, "[20]"},
		{at(20, 40, 50), 35, 60, "[20 40 50]"},
		{nil, 60, 70, "[50]"},
	} {
		o.noteTimes(step.times)
		got := []int64{}
		for _, one := range o.timesOf(step.from, step.to) {
			got = append(got, one.GetOffset())
		}
		if fmt.Sprint(got) != step.want {
			t.Errorf("%d to %d: %v, want %s", step.from, step.to, got, step.want)
		}
	}
}
