package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/sim/record"
)

// TestSlices: a seed draws pieces, the same ones each time, of which as many as are wanted are replayed; another seed
// draws others. Without traces there is an error that names the way out.
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
		err := study{traces: folder, slices: 1, seed: seed}.runSlices(&out, io.Discard)
		if strings.Count(out.String(), "\n| 1 |") != 1 {
			t.Errorf("seed %d: %v\n%s", seed, err, out.String())
		}
		return out.String()
	}
	if first := pieces(1); first != pieces(1) || first == pieces(2) {
		t.Error("the same seed draws others, or another one the same")
	}
	err := study{slices: 3}.runSlices(io.Discard, io.Discard)
	if err == nil || !strings.Contains(err.Error(), "-traces") {
		t.Errorf("without traces: %v", err)
	}
}
