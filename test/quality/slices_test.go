package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/sim/record"
)

// TestSlices checks that a seed always draws the same slices, that the requested number of them is replayed, and that
// another seed draws others. Without traces the error must name the fix.
func TestSlices(t *testing.T) {
	folder := t.TempDir()
	for i, c := range published() {
		drawn := record.Synthetic{Jobs: 200, Days: 1, Users: 3, Gangs: 40, Bursts: 10, Seed: i + 1}
		file, err := os.Create(filepath.Join(folder, c.file+".csv.gz"))
		if err != nil {
			t.Fatal(err)
		}
		if err := record.WriteCSV(file, drawn.Trace()); err != nil {
			t.Fatal(err)
		}
		if err := file.Close(); err != nil {
			t.Fatal(err)
		}
	}
	pieces := func(seed uint64) string {
		var out strings.Builder
		err := study{traces: folder, slices: 1, seed: seed, rows: usualRows}.runSlices(&out, io.Discard)
		if strings.Count(out.String(), "\n| 1 |") != 1 {
			t.Errorf("seed %d: %v\n%s", seed, err, out.String())
		}
		return out.String()
	}
	if first := pieces(1); first != pieces(1) || first == pieces(2) {
		t.Error("the same seed draws other slices, or another seed the same")
	}
	err := study{slices: 3}.runSlices(io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-traces") {
		t.Errorf("without traces: %v", err)
	}
}

// TestSpan checks that a row range is parsed in its printed form, and that an invalid one is rejected with an example.
func TestSpan(t *testing.T) {
	var s rowRange
	if err := s.Set(usualRows.String()); err != nil || s != usualRows {
		t.Errorf("%v, %v", s, err)
	}
	for _, text := range []string{"", "2000", "2000-", "6000-2000", "0-5", "-5", "5-5", "a-b"} {
		if err := s.Set(text); err == nil || !strings.Contains(err.Error(), "5000-20000") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestWithin checks that the mean of a slice's runs is compared with the targets, including equality.
func TestWithin(t *testing.T) {
	run := func(wait float64) *record.Result { return &record.Result{Waits: record.Waits{WaitAvg: wait}} }
	if s := (slice{ours: []*record.Result{run(100), run(300)}}); s.wait() != 200 {
		t.Errorf("the mean of runs of 100 s and 300 s is %v s", s.wait())
	}
	for _, c := range []struct {
		mean, gangs float64
		within      bool
	}{{1, 2.5, true}, {0.5, 0, true}, {1.001, 0, false}, {0.5, 2.501, false}} {
		if s := (slice{overEasy: c.mean, over: c.gangs}); s.ok() != c.within {
			t.Errorf("%v of easy's mean, %v of its gangs': ok is %v", c.mean, c.gangs, s.ok())
		}
	}
}
