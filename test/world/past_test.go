//go:build world

package world

import (
	"fmt"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// This file tests how the page shows the cluster's past.

// TestPagePast views the map at a time when a gang ran that has ended since. No action may be possible there, and the
// user must be able to return to the present. The sums over time must include the gang.
func TestPagePast(t *testing.T) {
	t.Parallel()
	s := newSurf(t)
	gpus := func(n int) string {
		return fmt.Sprintf(`document.querySelector("canvas")?.getAttribute("aria-label").includes("%d of 32 GPUs")`, n)
	}
	s.await(gpus(0))
	s.visit("#/over") // GPU time is known from the first sum on
	s.await(`document.querySelector('[aria-label="GPUs"] tbody tr')`)
	s.visit("#/map")
	s.await(gpus(0))
	gang := s.submit("--name", "was-here", "-n", "2", "--gpus-per-task", "8", "--image", "host", "--", "sleep", "600")
	s.await(gpus(16))
	ran := s.kept(gang, "running")
	s.run("cancel", gang)
	s.await(gpus(0))
	ended := s.kept(gang, "cancelled")
	js[any](s, `document.getElementById("past").focus(); 0`)
	s.do(chromedp.KeyEvent("\r"))
	s.await(`document.querySelector("#player input")`)
	slide := func(at int64) {
		js[any](s, fmt.Sprintf(`(() => { const slide = document.querySelector("#player input"); slide.value = %d;
			slide.dispatchEvent(new Event("input")); })(); 0`, at))
	}
	slide(ran)
	s.await(gpus(16))
	s.keep("past")
	s.loadAxe()
	s.accessible("how it was")
	s.do(chromedp.EmulateViewport(360, 800))
	if wide := js[int64](s, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("the view of the past is %d wide", wide)
	}
	s.do(chromedp.EmulateViewport(1280, 800))
	s.visit("#/jobs")
	s.await(`[...document.querySelectorAll("tbody tr")].some((r) => r.innerText.includes("was-here") && r.innerText.includes("running"))`)
	s.visit("#/job/" + gang)
	s.shows("was-here")
	if n := js[int](s, `document.querySelectorAll("main .buttons button").length`); n != 0 {
		t.Errorf("the view of the past has %d buttons", n)
	}
	s.visit("#/map")
	slide(ended)
	s.await(gpus(0))
	slide(ran)
	js[any](s, `document.querySelector("#player select").value = "60"; document.querySelector("#player button").click(); 0`)
	s.await(gpus(0)) // it was played up to the end
	js[any](s, `[...document.querySelectorAll("#player button")].find((b) => b.innerText === "Back to live view").click(); 0`)
	s.await(`!document.getElementById("player")`)
	s.visit("#/job/" + gang)
	s.shows("cancelled")
	s.visit("#/over")
	s.await(`[...document.querySelectorAll('[aria-label="GPUs by class"] tbody tr')].some((r) =>
		r.innerText.startsWith("productive") && Number(r.cells[1].innerText) > 0 && Number(r.cells[4].innerText) > 0)`)
	s.shows("No GPU time was lost.") // it was cancelled
	s.await(`[...document.querySelectorAll('[aria-label^="Waiting time"] tbody tr')].some((r) => r.cells[0].innerText === "9–64")`)
	s.keep("over")
	s.silent()
}

// kept waits until the timeline has a moment at which a job was in a phase, and returns it.
func (s *surf) kept(job, phase string) int64 {
	s.t.Helper()
	at := time.Now().Add(12 * time.Second).UnixMilli() // a block is written every ten seconds
	js[any](s, fmt.Sprintf(`window.kept = false; (async () => {
		for (;;) {
			const text = Date.now() > %[1]d && await (await fetch("/past?at=%[1]d&until=%[1]d")).text();
			if (text && JSON.parse(text).record.some((p) => p.changes?.some(([kind, j]) =>
				kind === "job" && j.id === %[2]q && j.phase === %[3]q))) break;
			await new Promise((after) => setTimeout(after, 500));
		}
		window.kept = true;
	})(); 0`, at, job, phase))
	s.await("window.kept")
	return at
}
