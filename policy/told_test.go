package policy

// This file tests the published estimates.

import "testing"

// TestTold checks that the time for 9 of 10 is published after twenty errors and not before, and that it matches nine
// of ten errors.
func TestTold(t *testing.T) {
	var r record
	var heard []FirstEstimate
	r.heard = func(told FirstEstimate) { heard = append(heard, told) }
	for i := range int64(100) {
		e := &entry{Waiting: Waiting{Job: "j"}}
		j := &Judgement{now: i * 10_000 * second}
		r.tell(j, &promise{e: e, b: &burst{}, at: j.now + 1000*second})
		if by := e.told.by; i < enoughErrors != (by == 0) {
			t.Fatalf("after %d errors nine of ten is said to be %d", i, by)
		}
		r.started(e, j.now+(100+i*10)*second) // from a tenth of the estimate to more than all of it
	}
	last := heard[len(heard)-1]
	if late := (last.By - last.Made) / second; late != 100+89*10 {
		t.Errorf("nine of ten start within %d s of being told", late)
	}
	if heard[3].By != 0 || last.Job != "j" {
		t.Errorf("%+v", heard[3])
	}
}

// TestToldByAnEarlierLeader checks that an estimate of an earlier leader, which is on another clock, contributes no
// error and is not reported.
func TestToldByAnEarlierLeader(t *testing.T) {
	r := record{heard: func(told FirstEstimate) { t.Errorf("%+v is heard", told) }}
	r.started(&entry{standing: standing{told: &foretold{lost: true}}}, 1000*second)
	r.started(&entry{}, 1000*second)
	for i := range r.errors {
		if len(r.errors[i]) != 0 {
			t.Errorf("%v is counted as an error", r.errors[i])
		}
	}
}
