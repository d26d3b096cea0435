package main

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/replay"
)

// This file owns the pieces of traces that a seed draws: whoever doubts that the default policy was not made for the
// cases of docs/reports/quality.md gives a seed of his own.

// slice is a piece of a trace on a cluster, by number.
type slice struct {
	trace          string
	cut            record.Cut
	machines       int
	easy           *record.Result
	ours           []*record.Result
	overEasy, over float64 // the mean wait over easy's, and that of gangs; 0: there are none
}

const (
	// What a piece must reach, and how many of ten must.
	sliceMean, sliceGangs, sliceOfTen = 1.0, 2.5, 8
	// sliceWait is what jobs must wait on average under easy, in seconds: where nobody waits nothing is shown.
	sliceWait = 600
	// sliceTries is how many pieces are drawn at most for each that is wanted.
	sliceTries = 20
)

// ok reports whether a piece reaches what it must.
func (s *slice) ok() bool { return s.overEasy <= sliceMean && s.over <= sliceGangs }

// rowRange says how many rows a piece may have: at least, and fewer than at most.
type rowRange struct{ least, most int }

// usualRows are those of the cases of docs/reports/quality.md but the largest. Of pieces that are shorter fewer are
// within: see there.
var usualRows = rowRange{5_000, 20_000}

func (s *rowRange) String() string { return fmt.Sprintf("%d-%d", s.least, s.most) }

// Set reads what String writes.
func (s *rowRange) Set(text string) error {
	least, most, _ := strings.Cut(text, "-")
	var errs [2]error
	s.least, errs[0] = strconv.Atoi(least)
	s.most, errs[1] = strconv.Atoi(most)
	if errors.Join(errs[:]...) != nil || s.least < 1 || s.most <= s.least {
		return fmt.Errorf("two numbers are wanted, the lower one first, as in %v", &usualRows)
	}
	return nil
}

// drawnSlice draws the trace, the rows, the machines and the load of a piece.
func drawnSlice(r *rand.Rand, names []string, lengths map[string]int, of rowRange) slice {
	s := slice{trace: names[r.IntN(len(names))]}
	rows := min(of.least+r.IntN(of.most-of.least), lengths[s.trace])
	s.cut = record.Cut{First: r.IntN(max(1, lengths[s.trace]-rows)), Rows: rows, Load: 0.7 + 0.3*r.Float64()}
	s.machines = 16 + 8*r.IntN(7)
	return s
}

// runSlices replays pieces until there are as many as are wanted, prints them, and fails where too few of them reach
// what they must.
func (s study) runSlices(out, progress io.Writer) error {
	if s.traces == "" {
		return errors.New("pieces are cut from traces: -traces names their folder")
	}
	r := rand.New(rand.NewPCG(s.seed, 0))
	traces, lengths, names := map[string]*record.Trace{}, map[string]int{}, []string{}
	for _, c := range published() {
		if traces[c.file] != nil {
			continue
		}
		t, err := traceOf(s.traces, c.file)
		if err != nil {
			return err
		}
		traces[c.file], lengths[c.file], names = t, len(t.Jobs), append(names, c.file)
	}
	fmt.Fprint(out, "| | trace, from row, rows | machines | load | wait under `easy` | ours | over `easy`'s | "+
		"gangs' over `easy`'s |\n|---|---|---|---|---|---|---|---|\n")
	good, made := 0, 0
	for tries := 0; made < s.slices && tries < sliceTries*s.slices; tries++ {
		piece := drawnSlice(r, names, lengths, s.rows)
		fmt.Fprintf(progress, "%d of %d, try %d: %s\n", made+1, s.slices, tries+1, piece.trace)
		if waits, err := piece.run(traces[piece.trace], made, s.times()); err != nil || !waits {
			if err != nil {
				return fmt.Errorf("%s from row %d: %w", piece.trace, piece.cut.First, err)
			}
			continue
		}
		made++
		if piece.ok() {
			good++
		}
		fmt.Fprint(out, piece.row(made))
	}
	fmt.Fprintf(out, "\n%d of %d: a mean of at most %.1f of `easy`'s, and gangs of at most %.1f.\n", good, made, sliceMean,
		sliceGangs)
	if made < s.slices || 10*good < sliceOfTen*made {
		return fmt.Errorf("%d of %d pieces reach that, %d of ten are wanted (of %d)", good, made, sliceOfTen, s.slices)
	}
	return nil
}

// run replays a piece under easy, and, where jobs wait long enough under that, so often under the default policy: of
// one of ten pieces once with the simulator's checkers.
func (s *slice) run(t *record.Trace, number, times int) (waits bool, err error) {
	cluster := record.NewCluster(record.InRacks(s.machines, max(1, s.machines/8)), gpusPerMachine)
	o := record.Order{Cluster: cluster, Policy: "easy", Ref: true, Oracle: true, Seed: 1}
	if o.Jobs, err = t.Take(s.cut, cluster.Sum()); err != nil {
		return false, err
	}
	if s.easy, err = replay.Run(o, replay.Watch{}); err != nil || s.easy.WaitAvg < sliceWait {
		return false, err
	}
	o.Policy, o.Ref, o.Oracle = ours, false, false
	if times > 1 {
		o.Shake = shake
	}
	for k := range times {
		o.Seed, o.Check = uint64(k+1), number%10 == 9 && k == 0
		result, err := replay.Run(o, replay.Watch{})
		if err != nil {
			return false, err
		}
		if result.Unfinished > 0 {
			return false, fmt.Errorf("%d jobs never ended", result.Unfinished)
		}
		s.ours = append(s.ours, result)
	}
	s.overEasy = s.wait() / s.easy.WaitAvg
	if gangs := known(s.easy.WaitMultiAvg); gangs > 0 {
		wait, _ := mean(s.ours, func(r *record.Result) float64 { return known(r.WaitMultiAvg) })
		s.over = wait / gangs
	}
	return true, nil
}

// wait is the mean of the default policy's runs.
func (s *slice) wait() float64 {
	wait, _ := mean(s.ours, func(r *record.Result) float64 { return r.WaitAvg })
	return wait
}

func (s *slice) row(number int) string {
	return fmt.Sprintf("| %d | %s, %d, %d | %d | %.2f | %s | %s | %s | %s |\n", number, s.trace, s.cut.First, s.cut.Rows,
		s.machines, s.cut.Load, whole(s.easy.WaitAvg), whole(s.wait()),
		bold(fmt.Sprintf("%.2f", s.overEasy), s.overEasy > sliceMean), bold(fmt.Sprintf("%.2f", s.over), s.over > sliceGangs))
}
