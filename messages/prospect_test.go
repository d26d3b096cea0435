package messages

import (
	"testing"
	"time"
)

// atNoon is a time of day on which the tests of starts stand.
var atNoon = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC).UnixMilli()

// inMinutes is a time of day later than noon.
func inMinutes(n int64) int64 { return atNoon + n*60_000 }

// TestProspectWords checks that the text has no unknown time, and mentions 9 of 10 only if enough jobs are known.
func TestProspectWords(t *testing.T) {
	for want, told := range map[string]*Prospect{
		"expected 12:05Z (in 5m), guaranteed by 12:09Z (time limits) unless a node is lost": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: inMinutes(5), LatestUnixMs: inMinutes(8) + 1,
		},
		"expected 12:05Z (in 5m), guaranteed by 12:09Z (time limits) unless a node is lost or another queue takes back " +
			"what this queue borrows": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: inMinutes(5), LatestUnixMs: inMinutes(9), OnLoan: true,
		},
		"expected 12:05Z (in 5m, estimate), 9 of 10 similar jobs start by 12:08Z": {
			Basis: Basis_BASIS_LEARNED, AtUnixMs: inMinutes(5), LikelyUnixMs: inMinutes(8),
		},
		"expected 12:05Z (in 5m, estimate); no guarantee: svc (j4cm3g) has no time limit": {
			Basis: Basis_BASIS_LEARNED, AtUnixMs: inMinutes(5), Why: "svc (j4cm3g) has no time limit",
		},
		"unknown: svc (j4cm3g) has no time limit · 41 jobs ahead (1,200 GPU-hours, 2m at today's pace)": {
			Basis: Basis_BASIS_NONE, Why: "svc (j4cm3g) has no time limit", Ahead: 41, AheadGpuSeconds: 1200 * 3600,
			AheadMs: 120_000,
		},
		"unknown · 1 job ahead (1 GPU-hour)": {Basis: Basis_BASIS_NONE, Ahead: 1, AheadGpuSeconds: 9},
		"unknown · 2 jobs ahead":             {Basis: Basis_BASIS_NONE, Ahead: 2},
		"unknown":                            nil,
		"expected 12:05Z (in 5m, default estimate)": {
			Basis: Basis_BASIS_LEARNED, AtUnixMs: inMinutes(5), LikelyUnixMs: inMinutes(8), Unlearned: true,
		},
	} {
		if got := told.Words(atNoon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for want, told := range map[string]*Prospect{
		"":                                    {},
		"n1 for this job until 12:04Z":        {Kept: []string{"n1"}, KeptUntilUnixMs: inMinutes(4)},
		"n1, n2 for this job until it starts": {Kept: []string{"n1", "n2"}},
		"n1, n2 for this job as planned now":  {Kept: []string{"n1", "n2"}, Basis: Basis_BASIS_LEARNED},
		"n1, n2 and 1 more for this job until it starts": {Kept: []string{"n1", "n2", "n3"}},
	} {
		if got := told.Reserved(2, atNoon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// TestOverdue checks that a start in the past is shown as overdue and never as now.
func TestOverdue(t *testing.T) {
	for want, told := range map[string]*Prospect{
		"expected 12:00Z (in 30s, estimate)":      {Basis: Basis_BASIS_LEARNED, AtUnixMs: atNoon + 30_000},
		"expected 12:00Z (estimate)":              {Basis: Basis_BASIS_LEARNED, AtUnixMs: atNoon},
		"expected 11:59Z (estimate)":              {Basis: Basis_BASIS_LEARNED, AtUnixMs: atNoon - 9_999},
		"expected 11:59Z (overdue 10s, estimate)": {Basis: Basis_BASIS_LEARNED, AtUnixMs: atNoon - 10_000},
		"expected 11:59Z (overdue 10s, default estimate)": {
			Basis: Basis_BASIS_LEARNED, AtUnixMs: atNoon - 10_000, Unlearned: true,
		},
		"Infeasible: needs 64 GPUs": {Basis: Basis_BASIS_NONE, Why: "Infeasible: needs 64 GPUs"},
		"expected 11:58Z (overdue 2m), guaranteed by 11:59Z (passed)": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: inMinutes(-2), LatestUnixMs: inMinutes(-1),
		},
		"expected 11:58Z (overdue 2m), guaranteed by 12:01Z (time limits) unless a node is lost": {
			Basis: Basis_BASIS_LIMITS, AtUnixMs: inMinutes(-2), LatestUnixMs: inMinutes(1),
		},
	} {
		if got := told.Words(atNoon); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
