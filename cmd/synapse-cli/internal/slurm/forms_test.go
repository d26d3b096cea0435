package slurm

import (
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file tests Slurm's forms of values with random texts.

// FuzzForms checks that each form of Slurm is refused or has a result that can be written and read again.
func FuzzForms(f *testing.F) {
	for _, text := range []string{"n[1-3,07],x", "1-12:00:00", "4GB", "%.18i|%j%%", "[", "n[1-]", "-1", "5:", "999999999T",
		"%999999999999999i",
		"afterok:1:2,after:3+5", "1-7:2%3", "gpu:h100:8", "USR1@90"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if names, err := Hostnames(text); err == nil {
			again, failed := Hostnames(Hostlist(names))
			slices.Sort(names)
			slices.Sort(again)
			if !strings.ContainsAny(text, " \t\n\r\v\f") && (failed != nil ||
				!slices.Equal(slices.Compact(names), slices.Compact(again))) {
				t.Errorf("%q: %q becomes %q: %v", text, names, again, failed)
			}
		}
		if ms, err := sbatch.ParseTime(text); err == nil && ms < 0 {
			t.Errorf("%q is %d ms", text, ms)
		}
		if n, err := sbatch.Size(text); err == nil && n < 0 {
			t.Errorf("%q is %d bytes", text, n)
		}
		if before, columns, err := Percent(text, QueueFields()); err == nil && len(columns) < 100 {
			e := &Entry{ArrayID: "N/A", Element: "N/A"}
			for _, c := range columns {
				if c.Width > 1<<12 {
					return
				}
			}
			Line(before, columns, func(c Column[*Entry]) string { return c.Of(e) })
		}
		for _, o := range options() {
			_ = o.set(newBatch(forSbatch), text)
		}
		if words, err := sbatch.Words(text); err == nil {
			_, _ = newBatch(forSbatch).take(words)
		}
		_, _ = newBatch(forSbatch).Pattern("--output", text)
	})
}
