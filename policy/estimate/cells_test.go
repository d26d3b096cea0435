package estimate

// This file compares the estimate with the same rule in floating point, computed from a list of all attempts.

import (
	"cmp"
	"fmt"
	"math"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

const (
	minute = 60 * second
	hour   = 60 * minute
	day    = 24 * hour
	year   = 365 * day
)

// happened is one attempt, which may have ended.
type happened struct {
	traits     Traits
	cells      []string // its cells
	began, end int64    // end 0: it runs
	learned    bool
}

// belongs returns the cells of a job as text, with the memory of each. It repeats the rule independently of the tested
// code.
func belongs(t Traits) (cells []string, memory []float64) {
	add := func(k float64, of ...any) {
		cells, memory = append(cells, fmt.Sprintf("%#v", of)), append(memory, k)
	}
	class := 4
	for i, most := range []int64{1000, 4000, 8000} {
		if t.Size <= most {
			class = i + 1
			break
		}
	}
	add(1000, "pool", t.Pool)
	add(1000, "queue, class", t.Queue, class)
	if t.Owner != "" {
		add(20, "owner", t.Owner)
		add(20, "owner, size", t.Owner, t.Size)
	} else {
		add(20, "queue, size", t.Queue, t.Size)
	}
	if t.Name != "" {
		add(20, "owner, name", t.Owner, strings.NewReplacer("0", "", "1", "", "2", "", "3", "", "4", "", "5", "", "6", "",
			"7", "", "8", "", "9", "").Replace(t.Name))
	}
	add(20, "owner, queue, size, limit", t.Owner, t.Queue, t.Size, t.Limit)
	if t.Burst != 0 {
		add(math.Inf(1), "burst", t.Burst)
	}
	return cells, memory
}

// byTheRule returns the estimate by the rule, in seconds, from all attempts in the order of their ends.
func byTheRule(all []happened, t Traits, now int64) float64 {
	m := 3600.0
	cells, memory := belongs(t)
	for i, cell := range cells {
		var n, x, rn, exposure float64
		for _, h := range all {
			switch {
			case !slices.Contains(h.cells, cell):
			case h.end == 0:
				exposure += float64(now-h.began) / second
			case h.learned:
				n, x, rn = n*(1-1/memory[i])+1, x*(1-1/memory[i])+float64(h.end-h.began)/second, rn+1
			}
		}
		b := (x + m) / (n + 1)
		switch {
		case math.IsInf(memory[i], 1):
			b += exposure / (n + 1)
		case rn < 50:
			b += (1 - rn/50) * exposure / (n + 1)
		}
		m = b
	}
	limit := float64(t.Limit) / second
	if t.Limit == 0 {
		limit = longest / second
	}
	return min(max(m, 1), limit)
}

// history creates random attempts of a few kinds of jobs, and reports them to the cells.
type history struct {
	r     *rand.Rand
	now   int64
	cells *Cells
	ended []happened // in the order of their ends
	runs  []happened
}

func (h *history) traits() Traits {
	pick := func(of ...string) string { return of[h.r.Intn(len(of))] }
	return Traits{
		Pool: pick("", "h100"), Queue: pick("a", "b"), Owner: pick("", "ann", "bob"),
		Name:  pick("", "train-1", "train-22", "eval"),
		Size:  []int64{100, 1000, 2000, 8000, 64000}[h.r.Intn(5)],
		Limit: []int64{0, 12 * hour, 90 * day}[h.r.Intn(3)], Burst: uint64(h.r.Intn(4)),
	}
}

func (h *history) step(busy int) {
	h.now += h.r.Int63n([]int64{second, hour, day}[h.r.Intn(3)])
	if len(h.runs) <= busy || h.r.Intn(3) == 0 {
		t := h.traits()
		h.cells.Began(t, h.now)
		cells, _ := belongs(t)
		h.runs = append(h.runs, happened{traits: t, cells: cells, began: h.now})
		return
	}
	i := h.r.Intn(len(h.runs))
	ends := h.runs[i]
	h.runs = slices.Delete(h.runs, i, i+1)
	ends.end, ends.learned = h.now, h.r.Intn(5) > 0
	h.cells.Ended(ends.traits, ends.began, h.now, ends.learned)
	h.ended = append(h.ended, ends)
}

// TestEstimateIsTheRule checks that the estimate differs from the rule by at most a thousandth, for new and old, idle
// and busy cells.
func TestEstimateIsTheRule(t *testing.T) {
	estimates, atLimit := 0, 0
	for seed := range int64(60) {
		h := &history{r: rand.New(rand.NewSource(seed)), cells: NewCells()}
		// Bursts are held as in the queue, because they would be removed otherwise.
		for burst := range uint64(4) {
			defer h.cells.Of(Traits{Burst: burst}).Close()
		}
		for step := range 400 {
			h.step(int(seed % 30))
			if step%20 > 0 {
				continue
			}
			of := h.traits()
			want := byTheRule(slices.Concat(h.ended, h.runs), of, h.now)
			got := h.cells.Estimate(of, h.now)
			if math.Abs(float64(got)/second-want) > want/1000 {
				t.Fatalf("seed %d, step %d: %+v is estimated at %.4f s, and the rule says %.4f s", seed, step,
					of, float64(got)/second, want)
			}
			line := h.cells.Of(of)
			if again := line.Estimate(h.now); again != got {
				t.Fatalf("a line says %d, and the cells %d", again, got)
			}
			line.Close()
			estimates++
			if got == of.Limit {
				atLimit++
			}
		}
	}
	if estimates < 1000 || atLimit == 0 || atLimit > estimates/2 {
		t.Errorf("%d of %d estimates were the limit: the others were not tried, or it was not", atLimit, estimates)
	}
}

// TestEstimateLearns checks that the run times of one kind of jobs change the estimate of the next such job, and that
// other kinds change it less.
func TestEstimateLearns(t *testing.T) {
	c, of := NewCells(), Traits{Pool: "h100", Queue: "q", Owner: "ann", Name: "eval-1", Size: 8000}
	if got := c.Estimate(of, 0); got != hour {
		t.Errorf("where nothing is known %d s are expected, want an hour", got/second)
	}
	for range 30 {
		c.Learn(of, minute)
	}
	own := c.Estimate(of, 0)
	if own > 2*minute {
		t.Errorf("after thirty jobs of a minute %d s are expected", own/second)
	}
	of.Owner, of.Size = "bob", 1000
	if other := c.Estimate(of, 0); other < own || other > hour/2 {
		t.Errorf("another owner's job is expected to take %d s", other/second)
	}
}

// TestEstimateRisesWhileColdOnly checks that running jobs raise the estimate only while few jobs have ended. In a
// steady flow they do not.
func TestEstimateRisesWhileColdOnly(t *testing.T) {
	c, of := NewCells(), Traits{Pool: "h100", Queue: "q", Owner: "ann", Size: 8000}
	c.Learn(of, second)
	for range 10 {
		c.Began(of, 0)
	}
	young, later := c.Estimate(of, minute), c.Estimate(of, 5*hour)
	if later < young+hour {
		t.Errorf("ten jobs that have run for five hours moved the estimate from %d s to %d s", young/second, later/second)
	}
	for range 60 {
		c.Learn(of, minute)
	}
	if before, after := c.Estimate(of, hour), c.Estimate(of, 100*hour); before != after {
		t.Errorf("what runs is counted for ever: %d s became %d s", before/second, after/second)
	}
	// Running jobs of the same burst always count.
	of.Burst = 7
	held := c.Of(of)
	defer held.Close()
	for range 60 {
		c.Began(of, 0)
		c.Ended(of, 0, minute, true)
	}
	c.Began(of, 0)
	if before, after := held.Estimate(hour), held.Estimate(100*hour); after < before+hour {
		t.Errorf("a sibling that runs for a hundred hours moved the estimate from %d s to %d s", before/second, after/second)
	}
}

// TestCutShortIsNotLearned checks that an attempt which was stopped for an external reason does not change the learned
// run times.
func TestCutShortIsNotLearned(t *testing.T) {
	c, of := NewCells(), Traits{Pool: "h100", Queue: "q", Owner: "ann", Size: 8000, Burst: 3}
	held := c.Of(of)
	defer held.Close()
	for range 30 {
		c.Learn(of, 5*hour)
	}
	before, known := held.Estimate(hour), c.Known()
	for i := range int64(30) {
		c.Began(of, i*second)
		c.Ended(of, i*second, (i+2)*second, false)
	}
	if after := held.Estimate(hour); after != before || !slices.Equal(c.Known(), known) {
		t.Errorf("thirty attempts that were preempted after two seconds moved the estimate from %d s to %d s", before/second,
			after/second)
	}
}

func TestEstimateIsWithinALimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := NewCells()
		of := Traits{Owner: "ann", Size: 1000, Limit: rapid.Int64Range(0, 10*year).Draw(t, "limit")}
		for range rapid.IntRange(0, 5).Draw(t, "jobs") {
			c.Learn(of, rapid.Int64Range(-second, 10*year).Draw(t, "ran"))
			c.Began(of, rapid.Int64Range(-10*year, 10*year).Draw(t, "began"))
		}
		got := c.Estimate(of, rapid.Int64Range(0, 10*year).Draw(t, "now"))
		if got < min(second, cmp.Or(of.Limit, second)) || got > cmp.Or(of.Limit, longest) {
			t.Fatalf("%d ns are expected of a job with a limit of %d ns", got, of.Limit)
		}
	})
}

// TestEstimateOfTheLargest checks a million jobs of ten years, and as many running ones, which is more than any cluster
// has.
func TestEstimateOfTheLargest(t *testing.T) {
	line := NewCells().Of(Traits{Pool: "h100", Queue: "q", Owner: "ann", Name: "x", Size: 8000, Burst: 1})
	million := func(do func(*cell)) {
		for _, x := range line.cells {
			for range 1_000_000 {
				do(x)
			}
		}
	}
	million(func(x *cell) { x.begin(-year) })
	if got := line.Estimate(9 * year); got != longest {
		t.Errorf("of a million that run for ten years: %d s", got/second)
	}
	million(func(x *cell) { x.end(-year); x.learn(10 * year) })
	if got := line.Estimate(9 * year); math.Abs(float64(got)/(10*year)-1) > 1e-3 {
		t.Errorf("of a million that ran for ten years: %.3f years", float64(got)/year)
	}
	million(func(x *cell) { x.begin(0) })
	if got := line.Estimate(year / 1_000_000); math.Abs(float64(got)/(10*year)-1) > 1e-3 {
		t.Errorf("of a million that ran for ten years, and as many that began: %.3f years", float64(got)/year)
	}
	if got := line.Estimate(10 * year); got != longest {
		t.Errorf("of a million that ran for ten years, and as many that run: %.3f years", float64(got)/year)
	}
	for _, x := range line.cells {
		// Even wrong counts and clock readings give a result.
		x.count, x.sum, x.running, x.starts = 1, mostSum, 1, math.MinInt64/2
	}
	if got := line.Estimate(10 * year); got != longest {
		t.Errorf("of all that there may ever be: %d s", got/second)
	}
}

func TestRemaining(t *testing.T) {
	for _, c := range []struct{ estimate, elapsed, limit, want int64 }{
		{hour, 0, 0, hour},
		{hour, 20 * minute, 0, 40 * minute},
		{hour, 50 * minute, 0, 25 * minute}, // it is older than its estimate
		{hour, 10 * hour, 0, 5 * hour},
		{minute, 40 * second, 0, 30 * second},
		{hour, 0, 30 * minute, 30 * minute},
		{hour, 10 * hour, 10*hour + minute, minute},
		{hour, 2 * hour, hour, 0}, // it is being stopped
	} {
		if got := Remaining(c.estimate, c.elapsed, c.limit); got != c.want {
			t.Errorf("%+v: %d s", c, got/second)
		}
	}
}

// TestCellsAreBounded checks that the number of cells is limited for any number of kinds of jobs, and that the most
// used ones remain.
func TestCellsAreBounded(t *testing.T) {
	c := NewCells()
	c.most = 300
	regular := Traits{Pool: "h100", Queue: "q", Owner: "ann", Name: "nightly", Size: 8000}
	gone := Traits{Pool: "h100", Queue: "q", Owner: "former", Name: "nightly", Size: 8000}
	for range 100 {
		c.Learn(gone, day)
	}
	for i := range int64(30 * c.most) {
		once := Traits{Pool: "h100", Queue: "q", Owner: "bob", Name: fmt.Sprintf("%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676),
			Size: 1000}
		began := i * second
		c.Began(once, began)
		c.Ended(once, began, began+second, true)
		if i%20 == 0 {
			c.Learn(regular, hour)
		}
		if c.Len() > c.most || len(c.cells) > c.most || len(c.sorted) != c.Len() {
			t.Fatalf("%d cells after %d jobs, %d of them in order, and %d in the table", c.Len(), i, len(c.sorted), len(c.cells))
		}
	}
	if c.Len() < c.most {
		t.Errorf("%d cells are kept of %d that may be", c.Len(), c.most)
	}
	if got := c.Estimate(regular, 0); got < hour/2 {
		t.Errorf(
			"what runs every day is expected to take %d s, an hour was learned: jobs with names of their own drove it out",
			got/second)
	}
	if slices.ContainsFunc(c.Known(), func(k Cell) bool { return k.Owner == "former" }) {
		t.Error("who left long ago is remembered in place of those who are here")
	}
	if full := fullCells(); full.Len() != MaxCells || len(full.cells) != MaxCells {
		t.Errorf("%d cells are kept, and %d are in the table", full.Len(), len(full.cells))
	}
}

// TestCellsOfAnotherOrder checks that evictions and records depend only on the attempts, and not on any order in
// memory.
func TestCellsOfAnotherOrder(t *testing.T) {
	of := func() *Cells {
		c := NewCells()
		c.most = 1000
		return c
	}
	a, r := of(), rand.New(rand.NewSource(1))
	job := func() Traits {
		return Traits{Pool: "h100", Queue: "q", Owner: fmt.Sprintf("u%c%c", 'a'+r.Intn(26), 'a'+r.Intn(26)),
			Size: int64(r.Intn(100)), Limit: int64(r.Intn(5))}
	}
	for a.Len() < a.most {
		a.Learn(job(), hour)
	}
	known := a.Known()
	if !slices.IsSortedFunc(known, func(x, y Cell) int { return x.compare(&y.CellKey) }) {
		t.Error("what is known is not in the order of the keys")
	}
	b := of()
	shuffled := slices.Clone(known)
	r.Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	b.Recall(shuffled)
	if !slices.Equal(b.Known(), known) {
		t.Fatal("what was read again is not what was written")
	}
	for range 5000 {
		next, ran := job(), r.Int63n(day)
		a.Learn(next, ran)
		b.Learn(next, ran)
	}
	if !slices.Equal(b.Known(), a.Known()) {
		t.Error("two leaders who know the same learned the same and know something else")
	}
	b = of()
	b.Recall(
		append(a.Known(), Cell{CellKey: CellKey{Level: OfOwner, Owner: "much"}, Count: 9 * oneJob, Sum: 1, Ended: 9,
			Used: 99 * oneJob}))
	if b.Len() != b.most || !slices.ContainsFunc(b.Known(), func(k Cell) bool { return k.Owner == "much" }) {
		t.Errorf("%d cells were taken over of one too many, or that which is used most went", b.Len())
	}
}

// TestCellsThatAreHeld checks that eviction keeps the running jobs of a cell, and that an unused cell is removed
// completely.
func TestCellsThatAreHeld(t *testing.T) {
	c, of := NewCells(), Traits{Pool: "h100", Queue: "q", Owner: "ann", Name: "x", Size: 8000, Burst: 1}
	line, twin := c.Of(of), c.Of(of)
	c.Began(of, 0)
	c.Began(of, hour)
	c.Learn(of, minute)
	for c.Len() > 0 {
		c.letGo()
	}
	if got, want := line.Estimate(2*hour), c.Estimate(of, 2*hour); got != want || got < 3*hour {
		t.Errorf("the line says %d s, the cells %d s: of jobs that run for two hours and one", got/second, want/second)
	}
	c.Ended(of, hour, 2*hour, false)
	c.Ended(of, 0, 3*hour, true)
	if got := twin.Estimate(0); got < 2*hour {
		t.Errorf("a line does not see what was learned: %d s", got/second)
	}
	line.Close()
	line.Close()
	twin.Close()
	if len(c.cells) != c.Len() || c.Len() != 6 {
		t.Errorf("%d cells are held by nobody", len(c.cells)-c.Len())
	}
	c.Began(of, 0)
	for c.Len() > 0 {
		c.letGo()
	}
	c.Ended(of, 0, hour, false) // its cells still exist
	if len(c.cells) != 0 {
		t.Errorf("%d cells are left of nothing", len(c.cells))
	}
	defer func() {
		if recover() == nil {
			t.Error("an attempt ended that had never begun")
		}
	}()
	c.Ended(of, 0, hour, true)
}

// BenchmarkEstimate measures estimates as a pass needs them, of cells with data and running jobs.
func BenchmarkEstimate(b *testing.B) {
	h := &history{r: rand.New(rand.NewSource(1)), cells: NewCells()}
	var lines []*Line
	for range 2000 {
		h.step(500)
		lines = append(lines, h.cells.Of(h.traits()))
	}
	b.ReportAllocs()
	i, sum := 0, int64(0)
	for b.Loop() {
		sum += lines[i%len(lines)].Estimate(h.now)
		i++
	}
	if sum == 0 {
		b.Error("nothing was estimated")
	}
}

// BenchmarkLearn measures one attempt from its barrier to its end, with full cells and a new name each time.
func BenchmarkLearn(b *testing.B) {
	c := fullCells()
	b.ReportAllocs()
	for i := int64(0); b.Loop(); i++ {
		of := Traits{Pool: "h100", Queue: "q", Owner: "bob", Name: fmt.Sprintf("%c%c%c", 'a'+i%26, 'a'+i/26%26, 'A'+i/676%26),
			Size: 1000}
		c.Began(of, i)
		c.Ended(of, i, i+second, true)
	}
}

// BenchmarkKnown measures the list of full cells for a record.
func BenchmarkKnown(b *testing.B) {
	c := fullCells()
	b.ReportAllocs()
	for b.Loop() {
		if len(c.Known()) != MaxCells {
			b.Fatal("they are not full")
		}
	}
}

func fullCells() *Cells {
	c := NewCells()
	for i := range 8 * MaxCells / 3 {
		c.Learn(Traits{Pool: "h100", Queue: "q", Owner: fmt.Sprintf("user-%d", i%200),
			Name: fmt.Sprintf("job-%c%c%c", 'a'+i%26, 'a'+i/26%26, 'a'+i/676%26), Size: int64(i % 1000)}, hour)
	}
	return c
}
