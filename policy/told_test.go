package policy

// This file owns the tests of what waiting jobs are told.

import "testing"

// TestTold: nine of ten is said after twenty errors and not before, and is what nine of ten of them were.
func TestTold(t *testing.T) {
	var r record
	var heard []Told
	r.heard = func(told Told) { heard = append(heard, told) }
	for i := range int64(100) {
		e := &entry{Waiting: Waiting{Job: "j"}}
		j := &Judgement{now: i * 10_000 * second}
		r.tell(j, &promise{e: e, b: &burst{}, at: j.now + 1000*second})
		if by := e.told.by; i < enoughErrors != (by == 0) {
			t.Fatalf("after %d errors nine of ten is said to be %d", i, by)
		}
		r.started(e, j.now+(100+i*10)*second) // from a tenth of what was said to more than all of it
	}
	last := heard[len(heard)-1]
	if late := (last.By - last.Made) / second; late != 100+89*10 {
		t.Errorf("nine of ten start within %d s of being told", late)
	}
	if heard[3].By != 0 || last.Job != "j" {
		t.Errorf("%+v", heard[3])
	}
}

// TestToldByAnEarlierLeader: when a job was told what an earlier leader told it is not known by this one's clock. Its
// start is no error of a promise that anybody can measure, and nobody hears of it.
func TestToldByAnEarlierLeader(t *testing.T) {
	r := record{heard: func(told Told) { t.Errorf("%+v is heard", told) }}
	r.started(&entry{standing: standing{told: &foretold{lost: true}}}, 1000*second)
	r.started(&entry{}, 1000*second)
	for i := range r.errors {
		if len(r.errors[i]) != 0 {
			t.Errorf("%v is counted as an error", r.errors[i])
		}
	}
}
