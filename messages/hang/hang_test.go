package hang

import (
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file tests the decision with tables.

const (
	floor = 60 * time.Second
	peer  = messages.Wait_WAIT_PEER
)

// gang returns ranks that have waited for a peer for two floors.
func gang(n int, change ...func(r []Rank)) Case {
	c := Case{Tasks: n, Floor: floor}
	for i := range n {
		c.Ranks = append(c.Ranks, Rank{Rank: int32(i), Node: "n" + string(rune('1'+i)), Step: 40, Reports: true, Late: true,
			Silent: 2 * floor, Quiet: 2 * floor, Wait: peer, Call: "recvfrom"})
	}
	for _, f := range change {
		f(c.Ranks)
	}
	return c
}

func on(i int, f func(r *Rank)) func([]Rank) { return func(all []Rank) { f(&all[i]) } }

func all(f func(r *Rank)) func([]Rank) {
	return func(all []Rank) {
		for i := range all {
			f(&all[i])
		}
	}
}

func busy(r *Rank) { r.Busy, r.Quiet, r.Wait = true, 0, messages.Wait_WAIT_RUNS }

// TestJudge checks the rank that each kind of evidence names: -1 is a hang without a rank, and -2 is no hang.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		name string
		c    Case
		want int
	}{
		{"all wait alike", gang(4), -1},
		{"one rank alone", gang(1), 0},
		{"a stopped rank", gang(4, on(2, func(r *Rank) { r.Wait = messages.Wait_WAIT_STOPPED })), 2},
		{"a stopped rank among busy ones", gang(4, all(busy), on(2, func(r *Rank) {
			r.Busy, r.Quiet, r.Wait = false, floor, messages.Wait_WAIT_STOPPED
		})), 2},
		{"all stopped", gang(4, all(func(r *Rank) { r.Wait = messages.Wait_WAIT_STOPPED })), -1},
		{"a lock", gang(4, on(1, func(r *Rank) { r.Wait = messages.Wait_WAIT_LOCK })), 1},
		{"two locks", gang(4, on(1, func(r *Rank) { r.Wait = messages.Wait_WAIT_LOCK }),
			on(2, func(r *Rank) { r.Wait = messages.Wait_WAIT_LOCK })), -1},
		{"a sleep", gang(2, on(1, func(r *Rank) { r.Wait = messages.Wait_WAIT_SLEEP })), 1},
		{"unread data", gang(4, on(3, func(r *Rank) { r.Unread = 100 })), 3},
		{"unread data on two ranks", gang(4, on(3, func(r *Rank) { r.Unread = 100 }),
			on(2, func(r *Rank) { r.Unread = 1 })), -1},
		{"a rank behind", gang(4, on(0, func(r *Rank) { r.Step = 39 })), 0},
		{"a rank ahead", gang(2, on(0, func(r *Rank) { r.Step = 41 })), 1},
		{"a rank that was quiet first", gang(4, on(1, func(r *Rank) { r.Quiet = 3 * floor })), 1},
		{"a rank that was quiet a moment earlier", gang(4, on(1, func(r *Rank) { r.Quiet += floor / 5 })), -1},
		{"too early", gang(4, all(func(r *Rank) { r.Silent = floor - 1 })), -2},
		{"one rank still makes steps", gang(4, on(3, func(r *Rank) { r.Late = false })), -2},
		{"no rank reports steps", gang(4, all(func(r *Rank) { r.Reports, r.Late = false, false })), -2},
		{"only rank 0 reports steps", gang(4, func(r []Rank) {
			for i := range r[1:] {
				r[i+1].Reports, r[i+1].Late, r[i+1].Step = false, false, 0
			}
			r[2].Wait = messages.Wait_WAIT_LOCK
		}), 2},
		{"a rank compiles", gang(4, on(0, busy)), -2},
		{"a rank announced a pause", gang(4, on(0, func(r *Rank) { r.Pause = "checkpoint" })), -2},
		{"a pause without end", gang(4, on(0, func(r *Rank) { r.Pause = "checkpoint" }),
			all(func(r *Rank) { r.Silent = 61 * floor })), -1},
		{"busy without end", gang(4, all(busy), all(func(r *Rank) { r.Silent = 11 * floor })), -1},
		{"one quiet rank among busy ones", gang(4, all(busy), on(2, func(r *Rank) {
			r.Busy, r.Quiet, r.Wait, r.Silent = false, 3*floor, messages.Wait_WAIT_LOCK, 4*floor
		}), all(func(r *Rank) { r.Silent = 4 * floor })), 2},
		{"what a rank waits for is unknown", gang(4, on(0, func(r *Rank) { r.Wait = 0 })), -1},
	} {
		f, hangs := Judge(c.c)
		if !hangs {
			f.Rank = -2
		}
		if f.Rank != c.want {
			t.Errorf("%s: rank %d (%s), want %d", c.name, f.Rank, f.Why, c.want)
		}
	}
}

// TestUnknownIsNotHung checks that a gang with a rank of unknown state never hangs, and that a request to save
// postpones the decision.
func TestUnknownIsNotHung(t *testing.T) {
	c := gang(4, all(func(r *Rank) { r.Silent = 100 * floor }))
	c.Tasks = 5
	if _, hangs := Judge(c); hangs {
		t.Error("a rank without a report counts as hung")
	}
	c.Active = 1
	if f, hangs := Judge(c); !hangs || f.Rank != -1 {
		t.Errorf("four silent ranks and a busy one gave %+v %v", f, hangs)
	}
	c.OnTime = 1
	if _, hangs := Judge(c); hangs {
		t.Error("a gang with a rank that makes progress counts as hung")
	}
	c = gang(4)
	c.Paused = true
	if _, hangs := Judge(c); hangs {
		t.Error("a gang that saves a checkpoint counts as hung")
	}
}

// TestDescribe checks the sentences.
func TestDescribe(t *testing.T) {
	now := time.Date(2026, 3, 1, 14, 4, 0, 0, time.UTC).UnixMilli()
	for want, c := range map[string]Case{
		"stalled: rank 5 on n6 sleeps in recvfrom since 14:02Z; ranks 0-4, 6-7 wait for it": gang(8,
			on(5, func(r *Rank) { r.Wait = messages.Wait_WAIT_SLEEP })),
		"stalled: rank 1 on n2 is stopped since 14:02Z; rank 0 waits for it": gang(2,
			on(1, func(r *Rank) { r.Wait = messages.Wait_WAIT_STOPPED })),
		"stalled: no rank of 3 has made progress since 14:02Z; no rank stands out": gang(3),
		"stalled: rank 0 on n1 waits in recvfrom since 14:02Z":                     gang(1),
	} {
		f, hangs := Judge(c)
		s := Describe(c, f, now)
		if !hangs || s.Text != want || (s.Rank >= 0) != (s.Why != "") {
			t.Errorf("got %q (%q), want %q", s.Text, s.Why, want)
		}
	}
	many := gang(20, on(0, func(r *Rank) { r.Wait = messages.Wait_WAIT_LOCK }))
	many.Ranks[0].Rank = 7
	many.Tasks = 20
	for i := range many.Ranks[1:] {
		many.Ranks[i+1].Rank = int32(20 + 2*i)
	}
	f, _ := Judge(many)
	if s := Describe(many, f, now); !strings.HasSuffix(s.Text, "; 19 other ranks wait for it") {
		t.Error(s.Text)
	}
}
