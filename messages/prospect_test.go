package messages

import (
	"fmt"
	"testing"
)

// TestProspectWords checks that the text has no unknown time, and mentions 9 of 10 only if enough jobs are known.
func TestProspectWords(t *testing.T) {
	moment := func(ms int64) string { return fmt.Sprint("T", ms) }
	span := func(ms int64) string { return fmt.Sprint(ms, "ms") }
	for want, told := range map[string]*Prospect{
		"expected ~T5, limits: no later than T9 unless a machine is lost": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: 5, LatestUnixMs: 9,
		},
		"expected ~T5, limits: no later than T9 unless a machine is lost or another queue takes back what this one " +
			"borrows": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: 5, LatestUnixMs: 9, OnLoan: true,
		},
		"expected ~T5, learned: by T8 in 9 of 10": {Basis: Basis_BASIS_LEARNED, AtUnixMs: 5, LikelyUnixMs: 8},
		"expected ~T5, learned; no latest time can be given: n4 (job svc) has no limit": {
			Basis: Basis_BASIS_LEARNED, AtUnixMs: 5, Why: "n4 (job svc) has no limit",
		},
		"no time can be given: n4 (job svc) has no limit · 41 ahead, 1,200 GPU-hours, 7ms at today's pace": {
			Basis: Basis_BASIS_NONE, Why: "n4 (job svc) has no limit", Ahead: 41, AheadGpuSeconds: 1200 * 3600, AheadMs: 7,
		},
		"no time can be given · 1 ahead, 1 GPU-hour": {Basis: Basis_BASIS_NONE, Ahead: 1, AheadGpuSeconds: 9},
		"no time can be given":                       nil,
		"expected ~T5": {
			Basis: Basis_BASIS_LEARNED, AtUnixMs: 5, LikelyUnixMs: 8, Unlearned: true,
		},
	} {
		if got := told.Words(4, moment, span); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, told := range map[string]*Prospect{
		"":                                       {},
		"n1 is kept for it until T4":             {Kept: []string{"n1"}, KeptUntilUnixMs: 4},
		"n1, n2 are kept for it until it starts": {Kept: []string{"n1", "n2"}},
		"n1, n2 are kept for it as things stand": {Kept: []string{"n1", "n2"}, Basis: Basis_BASIS_LEARNED},
		"n1, n2 and 1 more are kept for it until it starts": {Kept: []string{"n1", "n2", "n3"}},
	} {
		if got := told.KeptWords(2, moment); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOverdue checks that a start in the past is shown as overdue and never as now.
func TestOverdue(t *testing.T) {
	moment := func(ms int64) string { return fmt.Sprint("T", ms) }
	span := func(ms int64) string { return fmt.Sprint(ms, "ms") }
	for want, told := range map[string]*Prospect{
		"expected ~T90000, learned":                 {Basis: Basis_BASIS_LEARNED, AtUnixMs: 90_000},
		"expected ~T60000, learned":                 {Basis: Basis_BASIS_LEARNED, AtUnixMs: 60_000},
		"expected T50000, overdue 10000ms, learned": {Basis: Basis_BASIS_LEARNED, AtUnixMs: 50_000},
		"expected T50000, overdue 10000ms":          {Basis: Basis_BASIS_LEARNED, AtUnixMs: 50_000, Unlearned: true},
		"Infeasible: needs 64 GPUs":                 {Basis: Basis_BASIS_NONE, Why: "Infeasible: needs 64 GPUs", Ahead: 3},
		"expected T1, overdue 59999ms, limits: its latest start was T2": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: 1, LatestUnixMs: 2,
		},
		"expected T1, overdue 59999ms, limits: no later than T70000 unless a machine is lost": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: 1, LatestUnixMs: 70_000,
		},
	} {
		if got := told.Words(60_000, moment, span); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
