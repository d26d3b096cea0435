package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"time"
)

// This file owns the rounds of a comparison, and the table of its results.

// figure measures one operation of one system once.
type figure func(context.Context) (float64, error)

// row is an operation that both systems have.
type row struct {
	name, unit   string
	more         bool // a larger figure is better
	ours, theirs figure
	results      [2][]float64
}

// cost measures one program: the elapsed time and the CPU time of a run, in milliseconds.
type cost func(context.Context) (elapsed, cpu float64, err error)

// programRow is a program whose own cost is measured.
type programRow struct {
	name         string
	run          cost
	elapsed, cpu []float64
}

// rows are all measured operations.
type rows struct {
	pairs    []*row
	programs []*programRow
}

// measure runs the rounds. The systems take turns, and each round reverses their order. The results of the first,
// additional round do not count, because caches are empty.
func measure(ctx context.Context, all *rows, rounds int, progress io.Writer) error {
	for round := -1; round < rounds; round++ {
		fmt.Fprintf(progress, "round %d of %d\n", round+1, rounds)
		for _, r := range all.pairs {
			for turn := range 2 {
				which := (turn + round + 2) % 2
				result, err := []figure{r.ours, r.theirs}[which](ctx)
				if err != nil {
					return fmt.Errorf("%s: %w", r.name, err)
				}
				if round >= 0 {
					r.results[which] = append(r.results[which], result)
				}
			}
		}
		for _, p := range all.programs {
			elapsed, cpu, err := p.run(ctx)
			if err != nil {
				return fmt.Errorf("%s: %w", p.name, err)
			}
			if round >= 0 {
				p.elapsed, p.cpu = append(p.elapsed, elapsed), append(p.cpu, cpu)
			}
		}
	}
	return nil
}

// quantile returns a quantile of some results: 0.5 is the median.
func quantile(values []float64, at float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	place := at * float64(len(sorted)-1)
	below := int(place)
	above := min(below+1, len(sorted)-1)
	return sorted[below] + (sorted[above]-sorted[below])*(place-float64(below))
}

func median(values []float64) float64 { return quantile(values, 0.5) }

// line returns the line of a row: the medians, their ratio, and the middle half of the ratios of single rounds.
func (r *row) line() string {
	ours, theirs := r.results[0], r.results[1]
	var ratios []float64
	for i := range ours {
		ratios = append(ratios, ours[i]/theirs[i])
	}
	better := "less"
	if r.more {
		better = "more"
	}
	return fmt.Sprintf("| %s | %s%s | %s%s | %.2f (%.2f–%.2f) | %s |\n", r.name, short(median(ours)), after(r.unit),
		short(median(theirs)), after(r.unit), median(ours)/median(theirs), quantile(ratios, 0.25),
		quantile(ratios, 0.75), better)
}

// after returns a unit as it follows a number.
func after(unit string) string {
	if strings.HasPrefix(unit, "/") {
		return unit
	}
	return " " + unit
}

// short formats a figure with three digits.
func short(value float64) string {
	switch {
	case value >= 100:
		return fmt.Sprintf("%.0f", value)
	case value >= 10:
		return fmt.Sprintf("%.1f", value)
	}
	return fmt.Sprintf("%.2f", value)
}

// The floor programs, to which the other programs are compared.
const (
	floorHello = "hello world in Go"
	floorSends = "1 KB over TLS in Go"
)

// programTable returns the table of the programs. The ratios compare CPU times with those of the floor programs.
func programTable(programs []*programRow) string {
	var out strings.Builder
	out.WriteString("| program | CPU time | elapsed time | × hello world | × 1 KB over TLS |\n|---|---|---|---|---|\n")
	floor := func(name string, of float64) string {
		for _, p := range programs {
			if p.name == name {
				return fmt.Sprintf("%.2f", of/median(p.cpu))
			}
		}
		return "–"
	}
	for _, p := range programs {
		cpu := median(p.cpu)
		fmt.Fprintf(&out, "| %s | %s ms | %s ms | %s | %s |\n", p.name, short(cpu), short(median(p.elapsed)),
			floor(floorHello, cpu), floor(floorSends, cpu))
	}
	return out.String()
}

// report returns the tables, with the date and the host.
func report(ctx context.Context, r request, all *rows, theirs *system, at time.Time) string {
	version, err := theirs.ask(ctx, "sinfo", "--version")
	if err != nil {
		version = "Slurm of an unknown version"
	}
	var out strings.Builder
	fmt.Fprintf(&out, "- **Date and commit:** %s, %s\n", at.UTC().Format("2006-01-02"), commit(ctx))
	fmt.Fprintf(&out, "- **Host:** %s\n", host())
	fmt.Fprintf(&out, "- **Systems:** Synapse with TLS, SQLite and the driver `%s`; %s with munge and "+
		"`proctrack/linuxproc`; %d nodes each on loopback\n", r.driver, version, r.nodes)
	fmt.Fprintf(&out, "- **Rounds:** %d, interleaved, with %d submits and %d jobs each\n\n", r.rounds, r.submits, r.jobs)
	if len(all.pairs) > 0 {
		out.WriteString("| operation | Synapse | Slurm | ratio of medians (middle half of the rounds) | better |\n" +
			"|---|---|---|---|---|\n")
		for _, p := range all.pairs {
			out.WriteString(p.line())
		}
		out.WriteString("\n")
	}
	if len(all.programs) > 0 {
		out.WriteString(programTable(all.programs))
	}
	return strings.TrimRight(out.String(), "\n") + "\n"
}

// commit returns the commit of the working tree, or "unknown".
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return "unknown commit"
	}
	return strings.TrimSpace(string(out))
}

// host describes this host.
func host() string {
	model := "unknown CPU"
	text, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(text)) {
		if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
			model = strings.TrimSpace(value)
			break
		}
	}
	release, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	return fmt.Sprintf("%d cores, %s, Linux %s, %s", runtime.NumCPU(), model, strings.TrimSpace(string(release)),
		runtime.Version())
}

// The tables between these two lines of the page are replaced.
const (
	from = "<!-- written by make compare -->\n"
	to   = "<!-- end of what make compare writes -->\n"
)

// replace writes the tables into the page.
func replace(page, text string) error {
	old, err := os.ReadFile(page)
	if err != nil {
		return err
	}
	before, rest, begins := bytes.Cut(old, []byte(from))
	_, rest, ends := bytes.Cut(rest, []byte(to))
	if !begins || !ends {
		return fmt.Errorf("%s lacks the lines %q and %q, between which the tables belong", page, strings.TrimSpace(from),
			strings.TrimSpace(to))
	}
	return os.WriteFile(page, slices.Concat(before, []byte(from+"\n"+text+"\n"+to), rest), 0o644)
}
