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

// This file measures the first paint of the page, and how fast a change reaches it. For the figures, on a quiet host:
//
//	go test -tags world ./test/world -run PagePaint -world.machines 1000 -world.jobs 5000 -v

var paintJobs = flag.Int("world.jobs", 300, "how many waiting jobs TestPagePaint has; 5,000 for its figures")

// The required times with 1,000 nodes and 5,000 jobs.
const (
	paintWithin  = 300.
	updateWithin = 500.
)

// TestPagePaint checks that the page shows all jobs and nodes, and that a new job appears on it. With the full numbers
// of jobs and nodes, it also checks the times, as medians of five.
func TestPagePaint(t *testing.T) {
	bin, folder := programs(t)
	h := newHall(t, bin, folder)
	for i := range *paintJobs {
		h.asks(fmt.Sprintf("waits-%d", i), "many", int32(*machines)+1)
	}
	var first, all, late []float64
	h.browse("http://" + h.address + "/")
	for i := range 5 {
		h.do(chromedp.Navigate("about:blank"), chromedp.Navigate("http://"+h.address+"/"))
		h.await(fmt.Sprintf(`document.querySelector("canvas")?.getAttribute("aria-label").includes("of " +
			(%d).toLocaleString("en") + " nodes") && performance.getEntriesByName("map").length`, *machines))
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
	t.Logf("%d nodes, %d jobs: first paint %.0f ms, map %.0f ms, a change after %.0f ms (medians of 5)",
		*machines, *paintJobs, median(first), median(all), median(late))
	h.silent()
	if *machines < 1000 || *paintJobs < 5000 {
		return
	}
	var wrong []string
	if median(first) > paintWithin {
		wrong = append(wrong, "the first paint")
	}
	if median(late) > updateWithin {
		wrong = append(wrong, "a change")
	}
	if len(wrong) > 0 {
		t.Errorf("too late on this host: %s", strings.Join(wrong, " and "))
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
