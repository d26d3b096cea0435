//go:build world

package world

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/yi-json/synapse/messages"
)

// This file measures the first paint of the page, and how fast a change reaches it. On a busy host, only the CPU time
// of the browser says something. For the figures, on a quiet host:
//
//	go test -tags world ./test/world -run PagePaint -world.machines 1000 -world.jobs 5000 -v

var paintJobs = flag.Int("world.jobs", 300, "how many waiting jobs TestPagePaint has; 5,000 for its figures")

// The required times with 1,000 nodes and 5,000 jobs.
const (
	paintWithin  = 300.
	updateWithin = 500.
)

// TestPagePaint checks that the first picture of the map has all nodes, that the page shows all jobs, that a new job
// appears on it, and that a change makes only the changed rows again. With the full numbers of jobs and nodes, it also
// checks the times, as medians of five.
func TestPagePaint(t *testing.T) {
	bin, folder := programs(t)
	h := newHall(t, bin, folder)
	for i := range *paintJobs {
		h.asks(fmt.Sprintf("waits-%d", i), "many", int32(*machines)+1)
	}
	var first, all, late, work []float64
	h.browse("http://" + h.address + "/")
	for i := range 5 {
		h.do(chromedp.Navigate("about:blank"))
		before := browserSpent(t)
		h.do(chromedp.Navigate("http://" + h.address + "/"))
		h.await(fmt.Sprintf(`document.querySelector("canvas")?.getAttribute("aria-label").includes("of " +
			(%d).toLocaleString("en") + " nodes") && performance.getEntriesByName("map").length`, *machines))
		work = append(work, float64((browserSpent(t) - before).Milliseconds()))
		if n := js[int](h.surf, `performance.getEntriesByName("map")[0].detail`); n != *machines {
			t.Errorf("the first picture of the map has %d of %d nodes", n, *machines)
		}
		first = append(first, js[float64](h.surf, `performance.getEntriesByName("first-contentful-paint")[0].startTime`))
		all = append(all, js[float64](h.surf, `performance.getEntriesByName("map")[0].startTime`))
		h.visit("#/jobs?queue=probe")
		h.await(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, i))
		js[any](h.surf, fmt.Sprintf(`window.seen = 0; (() => { const look = () => {
			if (document.querySelectorAll("tbody tr").length > %d) window.seen = Date.now();
			else requestAnimationFrame(look);
		}; look(); })(); 0`, i))
		began := time.Now()
		h.asks(fmt.Sprintf("probe-%d", i), "probe", int32(*machines)+1)
		h.await("window.seen")
		late = append(late, js[float64](h.surf, "window.seen")-float64(began.UnixMilli()))
	}
	h.visit("#/jobs")
	h.await(`document.querySelector("tbody")`)
	h.await(fmt.Sprintf(`document.querySelector("main").innerText.includes("%d more rows")`,
		*paintJobs+5-300+*machines/2/gangOf))
	t.Logf("%d nodes, %d jobs: first paint %.0f ms, map %.0f ms, for %.0f ms of the browser's processors, a change "+
		"after %.0f ms (medians of 5)", *machines, *paintJobs, median(first), median(all), median(work), median(late))
	h.changedRows()
	h.keeps()
	h.silent()
	if *machines < 1000 || *paintJobs < 5000 {
		return
	}
	var wrong []string
	if median(first) > paintWithin {
		wrong = append(wrong, "the first paint")
	}
	if median(all) > paintWithin {
		wrong = append(wrong, "the map")
	}
	if median(late) > updateWithin {
		wrong = append(wrong, "a change")
	}
	if len(wrong) > 0 {
		t.Errorf("too late on this host: %s", strings.Join(wrong, " and "))
	}
}

// changedRows checks how a list changes in place: a row is made if it is new or has another sign, and stays otherwise.
func (h *hall) changedRows() {
	h.t.Helper()
	js[any](h.surf, `window.rows = undefined; import("/morph.js").then(({ morph, later }) => {
		const list = document.createElement("ul"), made = [];
		const show = (signs) => { made.length = 0; morph(list, signs.map((sign, i) => later("row " + i, sign, () => {
			made.push(i); return Object.assign(document.createElement("li"), { textContent: sign }); }))); };
		const sees = () => made.join(" ") + ": " + [...list.children].map((e) => e.textContent).join(" ");
		const seen = [];
		show(["a", "b", "c"]); seen.push(sees());
		const kept = list.children[1];
		show(["a", "B", "c"]); seen.push(sees());
		show(["a", "B", "c", "d"]); seen.push(sees(), String(list.children[1] === kept));
		window.rows = seen.join(", ");
	}); 0`)
	h.await("window.rows")
	if got, want := js[string](h.surf, "window.rows"), "0 1 2: a b c, 1: a B c, 3: a B c d, true"; got != want {
		h.t.Errorf("the rows are made as %q, want %q", got, want)
	}
}

// keeps checks that the state stays while a new one arrives, unless the user may not see it any more, and that only the
// new one is left in the end.
func (h *hall) keeps() {
	h.t.Helper()
	js[any](h.surf, `window.states = undefined; import("/state.js").then(({ apply, newState }) => {
		const state = newState(), sees = () => [...state.boxes.keys(), ...state.jobs.keys()].sort().join("");
		const box = (id) => ["box", { id }], job = (id, over) => ["job", { id, over }], seen = [];
		const takes = (piece) => { apply(state, piece, true); seen.push(sees() + " " + state.over.length); };
		takes({ changes: [box("a"), box("b")] });
		takes({ fresh: true, changes: [box("a")] });
		takes({ synced: true, changes: [job("j", true), job("k")] });
		takes({ fresh: true, changes: [job("j", true)] });
		takes({ synced: true, changes: [box("c")] });
		takes({ fresh: true, away: "no", barred: true });
		window.states = seen.join(", ");
	}); 0`)
	h.await("window.states")
	if got, want := js[string](h.surf, "window.states"), "ab 0, ab 0, ajk 1, ajk 1, cj 1,  0"; got != want {
		h.t.Errorf("the page has %q, want %q", got, want)
	}
}

// asks submits a gang that waits, because it needs more nodes than there are.
func (h *hall) asks(request, queue string, tasks int32) {
	h.t.Helper()
	if _, err := h.client.Submit(h.t.Context(), &messages.Submit{RequestId: request, AllowInfeasible: true,
		Spec: &messages.JobSpec{
			Name: "waits", Image: "host", Command: []string{"true"}, Queue: queue,
			Gang: &messages.GangSpec{ReplicasMin: tasks, ReplicasMax: tasks},
			Each: &messages.Resources{MilliCpu: 1000, MemoryBytes: 1 << 30, MilliGpu: 8000},
		}}); err != nil {
		h.t.Fatal(err)
	}
}
