package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// This file tests the rounds, the tables and the page without the two systems.

// constant returns a measurement with these results, and counts its calls in order.
func constant(calls *string, name string, results ...float64) figure {
	return func(context.Context) (float64, error) {
		*calls += name
		result := results[0]
		if len(results) > 1 {
			results = results[1:]
		}
		return result, nil
	}
}

// TestRounds checks that the systems take turns, that the first round does not count, and that the ratio is that of
// the medians.
func TestRounds(t *testing.T) {
	var calls string
	all := &rows{pairs: []*row{{name: "gang", unit: "ms", ours: constant(&calls, "o", 1000, 30, 10, 20),
		theirs: constant(&calls, "s", 1, 40, 40, 400)}}}
	if err := measure(t.Context(), all, 3, new(strings.Builder)); err != nil {
		t.Fatal(err)
	}
	if calls != "soossoos" {
		t.Errorf("the order of the measurements is %q", calls)
	}
	if got, want := all.pairs[0].line(), "| gang | 20.0 ms | 40.0 ms | 0.50 (0.15–0.50) | less |\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestRoundFails checks that a failed measurement ends the comparison with the name of the row.
func TestRoundFails(t *testing.T) {
	var calls string
	fails := func(context.Context) (float64, error) { return 0, errors.New("no node") }
	all := &rows{pairs: []*row{{name: "gang", ours: constant(&calls, "o", 1), theirs: fails}}}
	err := measure(t.Context(), all, 3, new(strings.Builder))
	if err == nil || err.Error() != "gang: no node" {
		t.Errorf("got %v", err)
	}
}

func TestProgramTable(t *testing.T) {
	programs := []*programRow{
		{name: floorHello, cpu: []float64{2, 1, 1}, elapsed: []float64{2}},
		{name: "mine", cpu: []float64{4}, elapsed: []float64{123.4}},
	}
	got := programTable(programs)
	if want := "| mine | 4.00 ms | 123 ms | 4.00 | – |\n"; !strings.HasSuffix(got, want) {
		t.Errorf("got %q, want %q at the end", got, want)
	}
}

func TestReplace(t *testing.T) {
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("before\n"+from+"old\n"+to+"after\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replace(page, "new\n"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if want := "before\n" + from + "\nnew\n\n" + to + "after\n"; err != nil || string(text) != want {
		t.Errorf("got %q, %v, want %q", text, err, want)
	}
	if err := os.WriteFile(page, []byte(from+"no end\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := replace(page, "new\n"); err == nil || !strings.Contains(err.Error(), "lacks the lines") {
		t.Errorf("got %v", err)
	}
}

// TestBadRequests checks that impossible numbers are refused before a process starts.
func TestBadRequests(t *testing.T) {
	for want, r := range map[string]request{
		"0 nodes: choose 1 to 64":                     {rounds: 1, submits: 1, jobs: 1},
		"65 nodes: choose 1 to 64":                    {nodes: 65, rounds: 1, submits: 1, jobs: 1},
		"rounds, submits and jobs must be at least 1": {nodes: 1, submits: 1, jobs: 1},
	} {
		if err := r.run(t.Context(), nil, nil); err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestMissingSlurm checks the error on a host without apt-get and without Slurm.
func TestMissingSlurm(t *testing.T) {
	if search(t.TempDir()).complete() {
		t.Skip("this host has Slurm")
	}
	t.Setenv("PATH", t.TempDir())
	_, err := unpacked(t.Context(), t.TempDir(), new(strings.Builder))
	if !errors.Is(err, errNoSlurm) || !strings.Contains(err.Error(), "install the packages slurmctld, slurmd,") {
		t.Errorf("got %v", err)
	}
}
