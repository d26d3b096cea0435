package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/sim/record"
)

// TestWritten checks that only the text between the two marks is replaced, any number of times.
func TestWritten(t *testing.T) {
	once := written("# Page\n\nwords\n", "| a |\n")
	if again := written(once+"more words\n", "| b |\n"); again != "# Page\n\nwords\n\n"+from+"| b |\n"+to+"more words\n" {
		t.Errorf("got %q, want %q", again, once)
	}
}

// TestRow checks that a missed target is bold, and that a row shows means over the runs of the default policy next to
// the other policies.
func TestRow(t *testing.T) {
	run := func(wait, gangs float64) *record.Result {
		waits := record.Waits{WaitAvg: wait, WaitMax: 2 * wait, WaitP99: wait}
		return &record.Result{Waits: waits, WaitMultiAvg: &gangs, Rack: &gangs, Util: 0.5}
	}
	runs := []*record.Result{run(1_000_000, 1), run(1_000_200, 3)}
	easy, sjf := []*record.Result{run(2_000_100, 8), run(2_000_300, 8)}, []*record.Result{{}, {}}
	got := row("X", goal{gangs: 0.2, easy: 1, longest: 0.1, rack: 2}, runs, easy, sjf)
	want := "| X | 2 | 1,000,100 ± 141 | – | 0.50 ± 0.00 | 2 ± 1 | **0.25** ± 0.12 | 1,000,100 | 2,000,200 | " +
		"**0.50** ± 0.00 | 0.500 | 2.00 | 0.000 | – | – | – |\n"
	if got != want {
		t.Errorf("it is\n%s and not\n%s", got, want)
	}
}

// TestClassRows checks that each class is compared with the same class of the other policies, and that only a missed
// target is bold.
func TestClassRows(t *testing.T) {
	run := func(wait, slow float64) *record.Result {
		one := record.Class{GPUs: "1", Waits: record.Waits{Jobs: 7, WaitAvg: 1, SlowdownAvg: 1, SlowdownP95: 1}}
		gangs := record.Class{GPUs: record.MultiNode,
			Waits: record.Waits{Jobs: 3, WaitAvg: wait, SlowdownAvg: slow, SlowdownP95: 2 * slow}}
		return &record.Result{Classes: []record.Class{one, gangs}}
	}
	runs, easy := []*record.Result{run(100, 3)}, []*record.Result{run(200, 2)}
	got := classRows("X", goal{gangs: 1, slow: 1.1}, runs, easy, []*record.Result{{}})
	want := "| X | 1 | 7 | 1 | – | 1.00 | 1.00 | 1.00 | 1.0 | 1.00 |\n" +
		"| X | multi-node | 3 | 100 | – | 0.50 | 3.00 | 1.50 | 6.0 | **1.50** |\n"
	if got != want {
		t.Errorf("got\n%s want\n%s", got, want)
	}
}

// small creates a folder with one trace of a few jobs.
func small(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	drawn := record.Synthetic{Jobs: 60, Days: 1, Users: 3, Gangs: 20, Bursts: 10, Seed: 3}
	file, err := os.Create(filepath.Join(folder, "philly_3vc.csv.gz")) // compressed or not
	if err != nil {
		t.Fatal(err)
	}
	if err := record.WriteCSV(file, drawn.Trace()); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return folder
}

// TestStudy checks that a folder of traces is replayed, that the page is written, and that a missing trace is named.
func TestStudy(t *testing.T) {
	folder := small(t)
	page := filepath.Join(folder, "page.md")
	if err := os.WriteFile(page, []byte("# Page\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := (study{traces: folder, name: "P2", page: page}).run(&out, io.Discard); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil || !strings.Contains(string(text), "\n| P2 | ") || !strings.HasSuffix(string(text), to) ||
		strings.Count(string(text), "\n| P2 | ") != 6 {
		t.Errorf("%v: %s", err, text)
	}
	if err := (study{traces: folder, name: "A1"}).run(&out, io.Discard); err == nil ||
		!strings.Contains(err.Error(), "aaic_2018q1.csv.gz") {
		t.Errorf("%v", err)
	}
}

// TestWithoutEachPart checks that the policy is replayed complete and without each of its parts, and that an unknown
// part is named.
func TestWithoutEachPart(t *testing.T) {
	s := study{traces: small(t), name: "P2", without: eachPart}
	var out strings.Builder
	if err := s.runParts(&out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, name := range append([]string{""}, policy.Parts()...) {
		if name != "" {
			name = " without " + name
		}
		if !strings.Contains(out.String(), "| P2"+name+" |") {
			t.Errorf("the policy was not replayed%s:\n%s", name, out.String())
		}
	}
	s.without = "luck"
	if err := s.runParts(io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "lending") {
		t.Errorf("for an unknown part: %v", err)
	}
}
