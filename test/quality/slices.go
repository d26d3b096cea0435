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

// This file draws random slices of traces. A reader who suspects that the default policy is tuned to the cases of
// docs/reports/quality.md can choose another seed.

// slice is a part of a trace on a cluster.
type slice struct {
	trace          string
	cut            record.Cut
	machines       int
	easy           *record.Result
	ours           []*record.Result
	overEasy, over float64 // the mean wait relative to easy, and that of gangs; 0: there are none
}

const (
	// Targets of a slice, and how many of ten slices must reach them.
	sliceMean, sliceGangs, sliceOfTen = 1.0, 2.5, 8
	// sliceWait is the minimum mean wait under easy in seconds, because a slice without waiting shows nothing.
	sliceWait = 600
	// sliceTries is the maximum number of drawn slices per requested slice.
	sliceTries = 20
)

// ok reports whether a slice reaches its targets.
func (s *slice) ok() bool { return s.overEasy <= sliceMean && s.over <= sliceGangs }

// rowRange is the range of a slice's number of rows: at least least, and fewer than most.
type rowRange struct{ least, most int }

// usualRows is the range of the cases of docs/reports/quality.md except the largest. The page explains why fewer of the
// shorter slices reach the targets.
var usualRows = rowRange{5_000, 20_000}

func (s *rowRange) String() string { return fmt.Sprintf("%d-%d", s.least, s.most) }

// Set parses the output of String.
func (s *rowRange) Set(text string) error {
	least, most, _ := strings.Cut(text, "-")
	var errs [2]error
	s.least, errs[0] = strconv.Atoi(least)
	s.most, errs[1] = strconv.Atoi(most)
	if errors.Join(errs[:]...) != nil || s.least < 1 || s.most <= s.least {
		return fmt.Errorf("write two numbers, the lower one first, as in %v", &usualRows)
	}
	return nil
}

// drawnSlice draws the trace, the rows, the nodes and the load of a slice.
func drawnSlice(r *rand.Rand, names []string, lengths map[string]int, of rowRange) slice {
	s := slice{trace: names[r.IntN(len(names))]}
	rows := min(of.least+r.IntN(of.most-of.least), lengths[s.trace])
	s.cut = record.Cut{First: r.IntN(max(1, lengths[s.trace]-rows)), Rows: rows, Load: 0.7 + 0.3*r.Float64()}
	s.machines = 16 + 8*r.IntN(7)
	return s
}

// runSlices replays the requested number of slices, prints them, and fails if too few of them reach the targets.
func (s study) runSlices(out, progress io.Writer) error {
	if s.traces == "" {
		return errors.New("slices need traces: name their folder with -traces")
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
	fmt.Fprintf(out, "\n%d of %d: a mean wait of at most %.1f times that of `easy`, and of gangs at most %.1f times.\n",
		good, made, sliceMean,
		sliceGangs)
	if made < s.slices || 10*good < sliceOfTen*made {
		return fmt.Errorf("%d of %d slices reach the targets, but %d of ten must (of %d)", good, made, sliceOfTen, s.slices)
	}
	return nil
}

// run replays a slice under easy. If jobs wait long enough, it also replays the slice several times under the default
// policy. Every tenth slice runs once with the simulator's checkers.
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

// wait returns the mean wait of the default policy's runs.
func (s *slice) wait() float64 {
	wait, _ := mean(s.ours, func(r *record.Result) float64 { return r.WaitAvg })
	return wait
}

func (s *slice) row(number int) string {
	return fmt.Sprintf("| %d | %s, %d, %d | %d | %.2f | %s | %s | %s | %s |\n", number, s.trace, s.cut.First, s.cut.Rows,
		s.machines, s.cut.Load, whole(s.easy.WaitAvg), whole(s.wait()),
		bold(fmt.Sprintf("%.2f", s.overEasy), s.overEasy > sliceMean), bold(fmt.Sprintf("%.2f", s.over), s.over > sliceGangs))
}
