package explain

import (
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"github.com/yi-json/synapse/messages"
)

// This file tests the title, the rows and the width of the text.

var noon = time.Date(2026, 11, 26, 17, 0, 0, 0, time.UTC).UnixMilli()

func gpusOf(n int64) *messages.Resources { return &messages.Resources{MilliGpu: n * 1000} }

func jobCalled(name, id, owner string) *messages.JobName {
	return &messages.JobName{Id: id + "zrmfrub", ShortId: id, Name: name, Owner: owner}
}

// big is the explanation of a job that waits for other jobs and for a drained node.
func big() *messages.Explanation {
	svc := jobCalled("svc", "jcifsh", "root")
	return &messages.Explanation{
		Job: jobCalled("big", "j6quxr", "root"), Phase: messages.PhaseQueued,
		Reason: "Resources: needs 32 GPUs, 0 of 32 free", ReasonCode: "Resources", AtUnixMs: noon,
		Needs: &messages.Demand{Total: gpusOf(32), WholeNodes: true},
		Space: &messages.Space{Free: gpusOf(0), Total: gpusOf(32), Usable: gpusOf(0), Nodes: 4},
		InUse: []*messages.Holding{
			{Job: jobCalled("pair", "j4cm3g", "root"), Amount: gpusOf(16), EndsUnixMs: noon + 25*60_000 + 1, Ends: ByLimit},
			{Job: svc, Amount: gpusOf(8), Ends: NoLimit},
		},
		Unavailable: []*messages.UnavailableNode{
			{Node: "node-4", Reason: "drained by root: fan", By: "root", Note: "fan"},
		},
		Reserved: []*messages.Holding{
			{Job: jobCalled("lim", "jmoiov", "root"), Amount: gpusOf(16)},
			{Job: jobCalled("bad", "j5xdq2", "ann"), Amount: gpusOf(1)},
		},
		Start: &messages.Prospect{
			Basis: messages.Basis_BASIS_NONE, Why: "svc (jcifsh, root) on node-3 has no time limit", Ahead: 2,
			AheadGpuSeconds: 20 * 3600,
		},
		NoLimit:  svc,
		InTheWay: []*messages.Constraint{{Kind: "unavailable"}, {Kind: "others"}}, AtOnce: 2,
	}
}

// TestSheet checks that a terminal shows one fact per row, and that a broken line continues below its column.
func TestSheet(t *testing.T) {
	for width, want := range map[int]string{
		160: `big (j6quxr) is queued: needs 32 GPUs, 0 of 32 free

Needs         32 GPUs, whole nodes
Free          0 of 32 GPUs
In use        16 GPUs  pair  (j4cm3g, root)  ends by 17:26Z (in 26m, time limit)
               8 GPUs  svc   (jcifsh, root)  no time limit
Unavailable   node-4  drained by root: fan
Reserved      16 GPUs for lim (jmoiov, root) and 1 GPU for bad (j5xdq2, ann)
Start         unknown: svc (jcifsh, root) on node-3 has no time limit
Queue         2 jobs ahead (20 GPU-hours)
To start now  no single change is enough: node-4 must return and other jobs must end
`,
		80: `big (j6quxr) is queued: needs 32 GPUs, 0 of 32 free

Needs         32 GPUs, whole nodes
Free          0 of 32 GPUs
In use        16 GPUs  pair  (j4cm3g, root)  ends by 17:26Z (in 26m, time limit)
               8 GPUs  svc   (jcifsh, root)  no time limit
Unavailable   node-4  drained by root: fan
Reserved      16 GPUs for lim (jmoiov, root) and 1 GPU for bad (j5xdq2, ann)
Start         unknown: svc (jcifsh, root) on node-3 has no time limit
Queue         2 jobs ahead (20 GPU-hours)
To start now  no single change is enough: node-4 must return and other jobs must
              end
`,
		60: `big (j6quxr) is queued: needs 32 GPUs, 0 of 32 free

Needs         32 GPUs, whole nodes
Free          0 of 32 GPUs
In use        16 GPUs pair (j4cm3g, root) ends by 17:26Z (in
              26m, time limit)
              8 GPUs svc (jcifsh, root) no time limit
Unavailable   node-4  drained by root: fan
Reserved      16 GPUs for lim (jmoiov, root) and 1 GPU for
              bad (j5xdq2, ann)
Start         unknown: svc (jcifsh, root) on node-3 has no
              time limit
Queue         2 jobs ahead (20 GPU-hours)
To start now  no single change is enough: node-4 must return
              and other jobs must end
`,
	} {
		if got := Of(big()).Text(width); got != want {
			t.Errorf("at %d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
	const line = "big (j6quxr) is queued: needs 32 GPUs, 0 of 32 free · Needs: 32 GPUs, whole nodes · Free: 0 of 32 GPUs" +
		" · In use: 16 GPUs pair (j4cm3g, root) ends by 17:26Z (in 26m, time limit); " +
		"8 GPUs svc (jcifsh, root) no time limit · "
	if got := Of(big()).Line(); !strings.HasPrefix(got, line) {
		t.Errorf("%q, want %q", got, line)
	}
}

// TestTitles checks that the title has the name, the short ID, the phase and the reason, and says if the job can never
// start.
func TestTitles(t *testing.T) {
	for want, e := range map[string]*messages.Explanation{
		"huge2 (j6quxr) can never start on this cluster: needs 64 GPUs, cluster has 32": {
			Job: jobCalled("huge2", "j6quxr", "root"), Phase: messages.PhaseQueued, Never: true,
			Reason: "Infeasible: needs 64 GPUs, cluster has 32", ReasonCode: "Infeasible",
		},
		"x would start now": {Job: &messages.JobName{Name: "x"}},
		"x would wait: needs 8 GPUs": {
			Job: &messages.JobName{Name: "x"}, Reason: "Resources: needs 8 GPUs", ReasonCode: "Resources",
		},
		"would wait: begins at 19:06Z": {Reason: "BeginTime: 19:06Z", ReasonCode: "BeginTime"},
		"b (j6quxr) is queued: waits for pair (j4cm3g) running": {
			Job: jobCalled("b", "j6quxr", "root"), Phase: messages.PhaseQueued,
			Reason: "Dependency: pair (j4cm3g) running", ReasonCode: "Dependency",
		},
		"j6quxr is held by root: waits for the data": {
			Job: jobCalled("", "j6quxr", "root"), Phase: messages.PhaseHeld, Reason: "Held by root: waits for the data",
			ReasonCode: "Held",
		},
		"j6quxr is held: its array k is held": {
			Job: jobCalled("", "j6quxr", "root"), Phase: messages.PhaseHeld, Reason: "Held: its array k is held",
			ReasonCode: "Held",
		},
		"j6quxr is queued: Prepare: no image on n1 (retry at 17:00:09Z)": {
			Job: jobCalled("", "j6quxr", ""), Phase: messages.PhaseQueued,
			Reason: "Prepare: no image on n1 (retry at 17:00:09Z)", ReasonCode: "Prepare",
		},
		"j6quxr is running":    {Job: jobCalled("", "j6quxr", ""), Phase: messages.PhaseRunning},
		"j6quxr has succeeded": {Job: jobCalled("", "j6quxr", ""), Phase: messages.PhaseSucceeded, Reason: "succeeded"},
		"j6quxr was cancelled by ann": {
			Job: jobCalled("", "j6quxr", ""), Phase: messages.PhaseCancelled, Reason: "cancelled by ann",
		},
		"j6quxr has timed out: 5s": {Job: jobCalled("", "j6quxr", ""), Phase: messages.PhaseTimedOut, Reason: "5s"},
	} {
		if got := Of(e); got.Title != want || len(got.Rows) > 0 {
			t.Errorf("%q, want %q; the rows are %v", got.Title, want, got.Rows)
		}
	}
}

// rowsOf formats the rows, one line each.
func rowsOf(e *messages.Explanation) string {
	var b strings.Builder
	for _, row := range Of(e).Rows {
		for _, line := range row.Lines {
			b.WriteString(row.Label + ": " + strings.Join(line, " ") + "\n")
		}
	}
	return b.String()
}

// TestRows checks that each fact has its row, and that long lists are shortened.
func TestRows(t *testing.T) {
	e := &messages.Explanation{
		Job: jobCalled("x", "j6quxr", "root"), Phase: messages.PhaseQueued, AtUnixMs: noon,
		Needs: &messages.Demand{
			Total: &messages.Resources{MilliCpu: 4000, MemoryBytes: 1 << 40}, Tasks: 2, GpuType: "", Level: "rack", User: "bob",
			Each: &messages.Resources{MilliCpu: 2000, MemoryBytes: 1 << 39}, SeparateNodes: true, NamedNodes: true,
			ExcludedNodes: true, FailedNodes: true, DrainingNodes: true,
		},
		Space: &messages.Space{
			Level: "rack", Domain: "a/r1", Free: &messages.Resources{MilliCpu: 9000},
			Total: &messages.Resources{MilliCpu: 96_000}, Usable: &messages.Resources{MilliCpu: 2000}, Nearest: "n6",
			NearestAsked: &messages.Resources{MilliCpu: 2000, MemoryBytes: 1 << 39},
			NearestHas:   &messages.Resources{MilliCpu: 500}, Nodes: 12, NodesWithoutCpus: 1, NodesWithoutMemory: 11,
		},
		FitsAfter: []*messages.JobName{jobCalled("pair", "j4cm3g", "ann")}, FitsByUnixMs: noon + 3600_000,
		Ahead: 1, Waiting: 5, Limit: "nlp uses 8 of at most 12 gpu", Quota: "nlp uses 8 of its quota of 16",
		Dependencies: []*messages.Dependency{
			{Job: jobCalled("pair", "j4cm3g", "ann"), Phase: messages.PhaseRunning},
			{Job: jobCalled("", "j5xdq2", ""), End: messages.AfterEnd_AFTER_END_ANY},
			{Job: jobCalled("", "j7xdq2", ""), End: messages.AfterEnd_AFTER_END_FAILED, Phase: messages.PhaseQueued},
		},
		Failure: "Launch: no image on n2",
		Relaxations: []*messages.Relaxation{
			{Text: "with 1 core (1 task)"},
			{Text: "with --time-limit 29m", Before: []*messages.JobName{jobCalled("big", "j6big", "ann")}},
		},
	}
	for range linesMost + 1 {
		e.InUse = append(e.InUse, &messages.Holding{
			Job: jobCalled("", "j1", ""), Amount: &messages.Resources{MilliCpu: 1000}, Ends: Unknown,
		})
		e.Unavailable = append(e.Unavailable, &messages.UnavailableNode{Node: "n", Reason: "dead"})
		e.Reserved = append(e.Reserved, &messages.Holding{
			Job: jobCalled("", "j2", ""), Amount: &messages.Resources{MilliCpu: 1000},
		})
	}
	e.MoreInUse, e.MoreUnavailable, e.MoreReserved = 1, 0, 2
	got := rowsOf(e)
	for _, want := range []string{
		"Needs: 4 cores (2 tasks of 2 cores), each task on a separate node, within one rack, as user bob, on named nodes, " +
			"without excluded nodes, without nodes where it failed, without nodes that drain before it would end\n",
		"Free: 9 of 96 cores in a/r1, the best rack\n" +
			"Free: only 2 of that can be used: a task needs 2 cores and 512 GiB, n6 has 0.5 and 0 B\n" +
			"Free: 1 of 12 nodes there: too few CPUs free\nFree: 11 of 12 nodes there: too little memory free\n",
		"In use: 1 core j1  end unknown\nIn use: and 2 more jobs\n",
		"Unavailable: n dead\nUnavailable: and 1 more node\n",
		"1 core for j2 and 3 more\n",
		"Start: fits by 18:00Z (in 1h, time limit), when pair (j4cm3g, ann) has ended\n",
		"Queue: 1 job ahead, of 5 waiting jobs\n",
		"Limits: nlp uses 8 of at most 12 gpu\nLimits: nlp uses 8 of its quota of 16\n",
		"Dependencies: pair (j4cm3g, ann) running, must succeed\nDependencies: j5xdq2  must end\n" +
			"Dependencies: j7xdq2  queued, must fail\n",
		"Last attempt: Launch: no image on n2\n",
		"To start now: with 1 core (1 task)\nTo start now: with --time-limit 29m (the job ends before the reserved nodes " +
			"are needed for big (j6big, ann))\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in\n%s", want, got)
		}
	}
	if n := strings.Count(got, "Unavailable: n dead\n"); n != linesMost {
		t.Errorf("%d of %d nodes are shown", n, linesMost+1)
	}
	e.Never = true
	if got := rowsOf(e); strings.Contains(got, "In use") || strings.Contains(got, "Queue") ||
		strings.Contains(got, " for j2") {
		t.Errorf("a job that never starts is told of other jobs:\n%s", got)
	}
}

// TestChanges checks that the row says which changes are needed together if no single one is enough.
func TestChanges(t *testing.T) {
	three := []*messages.Constraint{{Kind: "level", Name: "rack"}, {Kind: "reserved"}, {Kind: "unavailable"}}
	for want, e := range map[string]*messages.Explanation{
		"": {AtOnce: 1, InTheWay: three[:1], Conflict: three[:1]},
		"To start now: no single change is enough: more than one rack must be allowed, reserved nodes must become free and " +
			"unavailable nodes must return\n": {AtOnce: 3, InTheWay: three},
		"To start now: no single change is enough, 2 of these are: more than one rack must be allowed, reserved nodes must " +
			"become free, unavailable nodes must return\n": {AtOnce: 2, InTheWay: three},
		"To start now: no small change is enough: one of these, and more: more than one rack must be allowed, reserved " +
			"nodes must become free\n": {Conflict: three[:2]},
		"To start now: with split any\n": {
			AtOnce: 2, InTheWay: three, Relaxations: []*messages.Relaxation{{Text: "with split any"}},
		},
	} {
		if got := rowsOf(e); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	for _, kind := range []string{"excluded", "named", "apart", "memory", "cpu", "label", "gpu-type", "whole", "others"} {
		if got := must(&messages.Constraint{Kind: kind}, &messages.Explanation{}); got == "the job must be smaller" {
			t.Errorf("%s is taken for the size", kind)
		}
	}
}

// TestNoWiderThanTheTerminal checks that no line is wider than the terminal and that no word is lost.
func TestNoWiderThanTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.StringMatching(`[a-z-]{1,30}( [a-z()]{1,12}){0,12}`)
		p := Sheet{Title: words.Draw(t, "title")}
		for range rapid.IntRange(0, 4).Draw(t, "rows") {
			row := Row{Label: rapid.SampledFrom([]string{needsRow, inUseRow, changeRow}).Draw(t, "label")}
			for range rapid.IntRange(1, 4).Draw(t, "lines") {
				row.Lines = append(row.Lines, rapid.SliceOfN(words, 1, 4).Draw(t, "cells"))
			}
			p.Rows = append(p.Rows, row)
		}
		width := rapid.SampledFrom([]int{60, 80, 160}).Draw(t, "width")
		text := p.Text(width)
		for line := range strings.Lines(text) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Fatalf("%d columns of %d: %q in\n%s", n, width, line, text)
			}
		}
		letters := func(s string) string { return strings.Join(strings.Fields(s), "") }
		want := p.Title
		for _, row := range p.Rows {
			want += row.Label
			for _, line := range row.Lines {
				want += strings.Join(line, "")
			}
		}
		if got := letters(text); got != letters(want) {
			t.Fatalf("the page has %q, want %q", got, letters(want))
		}
		for line := range strings.Lines(strings.Join(strings.SplitAfter(text, "\n\n")[1:], "")) {
			label := strings.TrimSpace(line[:labelColumns])
			if !strings.HasPrefix(line, label) {
				t.Fatalf("%q does not stand under its label", line)
			}
		}
	})
}

// TestSteering checks that texts of users cannot move the cursor.
func TestSteering(t *testing.T) {
	e := big()
	e.Job.Name, e.Unavailable[0].Reason = "a\x1b[2Jb", "x\x1b]0;y"
	for _, text := range []string{Of(e).Text(80), Of(e).Line()} {
		if strings.ContainsRune(text, '\x1b') {
			t.Errorf("%q", text)
		}
	}
}
