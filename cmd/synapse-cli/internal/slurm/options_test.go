package slurm

import (
	"errors"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/internal/sbatch"
)

// This file tests that the page of Slurm's options agrees with the option tables.

var rewrite = flag.Bool("rewrite", false, "write the page instead of comparing")

const optionsPage = "../../../../docs/reference/slurm-options.md"

// treated returns what a program does with an option: the class, and the reason if the option is refused.
func treated(p *program, o option) (class, why string) {
	b := newBatch(p)
	err := o.set(b, "probe")
	if r := (*Refusal)(nil); errors.As(err, &r) && r.Text == "is not supported" {
		return "refused", r.Hint
	}
	if len(b.warnings) > 0 {
		return "accepted with a warning", ""
	}
	return "honored", ""
}

// optionTable returns the page.
func optionTable() string {
	page := "# Slurm options\n\n" +
		"This page lists every option of `sbatch`, `salloc` and `srun`, and what the command does with the option.\n" +
		"The page is generated from the option tables.\n" +
		"An honored option works as in Slurm, as far as [the description of the commands](slurm.md) says.\n" +
		"An accepted option has no effect, and the command prints one warning line.\n" +
		"A refused option ends the command before the submit.\n" +
		"[Slurm steps](slurm-steps.md) describes the options of `srun` in a job.\n"
	for _, p := range []*program{forSbatch, forSalloc, forSrun} {
		page += "\n## " + p.name + "\n\n| Option | Result | Reason |\n|---|---|---|\n"
		all := p.options()
		slices.SortFunc(all, func(x, y option) int { return strings.Compare(x.long, y.long) })
		for _, o := range all {
			name := "`--" + o.long + "`"
			if o.short != "" {
				name += ", `-" + o.short + "`"
			}
			class, why := treated(p, o)
			page += "| " + name + " | " + class + " | " + strings.ReplaceAll(why, "|", "\\|") + " |\n"
		}
	}
	return page
}

func TestOptionsPage(t *testing.T) {
	want := optionTable()
	if *rewrite {
		if err := os.WriteFile(optionsPage, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(optionsPage)
	if err != nil || string(got) != want {
		t.Errorf("%s is not current (%v): run go test ./cmd/synapse-cli/internal/slurm -run Options -rewrite", optionsPage,
			err)
	}
	for _, class := range []string{"| honored |", "| accepted with a warning |", "| refused |"} {
		if n := strings.Count(want, class); n < 20 {
			t.Errorf("only %d options are %s", n, class)
		}
	}
}

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
