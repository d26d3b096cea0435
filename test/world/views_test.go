//go:build world

package world

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// This file tests the views of the page on a wide screen, a tablet and a phone.

// widths are the screens on which each view is checked. At 900 pixels, rows are not cards yet.
var widths = []int64{1440, 900, 800, 390}

// scene is a cluster with one job of each kind that a view shows in its own way.
type scene struct {
	*surf
	running, waiting, failed, array string
}

// TestPageViews drives each view in Chromium at three widths, with the mouse and with the keyboard. It is one test,
// because a cluster and a browser take long to start.
func TestPageViews(t *testing.T) {
	t.Parallel()
	bin, folder := programs(t)
	c := &scene{surf: &surf{t: t, zone: "Asia/Kolkata", cli: filepath.Join(bin, "synapse-cli"),
		config: up(t, bin, folder, "--nodes", "4", "--racks", "2", "--gpus", "8")}}
	c.browse(c.serve())
	submit := func(words ...string) string {
		return c.submit(append(words, "--cpu", "1", "--mem", "64Mi", "--image", "host", "--", "sleep", "600")...)
	}
	long := "a-name-of-many-words-" + strings.Repeat("x", 40)
	c.running = submit("--name", "first", "-n", "2", "--gpus-per-task", "8", "--time-limit", "2h",
		"--label", "team=vision")
	c.waiting = submit("--name", long, "-n", "3", "--gpus-per-task", "8", "--queue", "research",
		"--label", "team=speech")
	c.array = submit("--name", "sweep", "--array", "0-5%2", "--gpu", "1")
	c.failed = c.submit("--name", "wrong", "--image", "host", "--", "false")
	c.visit("#/jobs")
	c.await(c.row(c.running) + `?.innerText.includes("running")`)
	c.await(c.row(c.failed) + `?.innerText.includes("failed")`)
	c.loadAxe()
	c.asCards()
	c.filtered()
	c.onMap()
	c.asEvents()
	c.found()
	c.asked()
	c.looksBack()
	c.jobPage()
	c.silent()
}

// row returns an expression for the row of a job.
func (c *scene) row(id string) string {
	return fmt.Sprintf(`document.querySelector('tr[data-key=%q]')`, id)
}

// asCards checks that no view scrolls sideways or has text outside of the screen, that rows are cards below 900 pixels,
// and that reasons wrap.
func (c *scene) asCards() {
	c.t.Helper()
	for _, hash := range []string{"#/jobs", "#/nodes", "#/queues", "#/over", "#/events", "#/job/" + c.running,
		"#/job/" + c.waiting, "#/job/" + c.array, "#/node/node-1", "#/map"} {
		c.visit(hash)
		c.await(`document.querySelector("main h1")`)
		c.atWidths(hash, func(width int64) {
			if wide := js[[]string](c.surf, `[...document.querySelectorAll("body *")].filter((e) => e.checkVisibility() &&
				!e.closest(".skip, svg") && (e.getBoundingClientRect().right > innerWidth + 1 || e.scrollWidth > e.clientWidth + 1 &&
				/auto|scroll/.test(getComputedStyle(e).overflowX))).map((e) => e.outerHTML.slice(0, 200))`); len(wide) > 0 {
				c.t.Errorf("%s is too wide on a screen of %d:\n%s", hash, width, strings.Join(wide, "\n"))
			}
		})
	}
	c.visit("#/jobs")
	c.await(c.row(c.waiting))
	c.atWidths("jobs", func(width int64) {
		card := js[bool](c.surf, `getComputedStyle(`+c.row(c.waiting)+`).display === "grid"`)
		if card != (width < 900) {
			c.t.Errorf("at %d pixels, a row is a card: %v", width, card)
		}
		if card && !js[bool](c.surf, `getComputedStyle(`+c.row(c.waiting)+`.cells[3], "::before").content.includes("Tasks")`) {
			c.t.Errorf("at %d pixels, a cell does not name its column", width)
		}
	})
}

// atWidths runs a check on each screen, with the accessibility check and a picture.
func (c *scene) atWidths(name string, check func(width int64)) {
	c.t.Helper()
	for _, width := range widths {
		c.do(chromedp.EmulateViewport(width, 800))
		check(width)
		c.accessible(fmt.Sprintf("%s at %d", name, width))
		c.keep(fmt.Sprintf("%s-%d", strings.NewReplacer("#/", "", "/", "-").Replace(name), width))
	}
	c.do(chromedp.EmulateViewport(widths[0], 800))
}

// ids is an expression for the IDs of the rows, in their order.
const ids = `[...document.querySelectorAll("tbody tr")].map((r) => r.dataset.key).join(" ")`

// filtered checks that filters and order are part of the address, that labels filter although the page never has them,
// that an array is one row, and that rows show the time left and the progress.
func (c *scene) filtered() {
	c.t.Helper()
	rows := func(hash string, want ...string) {
		c.t.Helper()
		c.visit(hash)
		c.await(fmt.Sprintf("%s === %q", ids, strings.Join(want, " ")))
	}
	rows("#/jobs?queue=research", c.waiting)
	rows("#/jobs?phase=failed", c.failed)
	rows("#/jobs?label=team%3Dvision", c.running)
	rows("#/jobs?label=team%3Dspeech", c.waiting)
	rows("#/jobs?label=team%3Dvision&phase=queued")
	c.shows("No job matches")
	c.do(chromedp.Click("#by-none"))
	c.await(`location.hash === "#/jobs"`)
	rows("#/jobs?sort=-gpus&mine=1&phase=queued", c.waiting)
	c.visit("#/jobs?label=team")
	c.shows("Write the label as KEY=VALUE")
	c.accessible("a wrong label")
	if js[bool](c.surf, `document.documentElement.outerHTML.includes("speech")`) {
		c.t.Error("a label of a job is on the page")
	}
	rows("#/jobs?sort=gpus", c.failed, c.array, c.running, c.waiting)
	c.do(chromedp.Click("#sort-gpus"))
	c.await(`location.hash === "#/jobs?sort=-gpus" && document.querySelector("th[aria-sort=descending]")?.innerText.startsWith("GPUs")`)
	rows("#/jobs?sort=-gpus", c.waiting, c.running, c.array, c.failed)
	c.arraysFold()
	c.await(`/^1h5\dm$/.test(` + c.row(c.running) + `.cells[8].innerText)`)
	c.await(c.row(c.running) + `.cells[9].innerText === "not measured"`)
	c.await(c.row(c.waiting) + `.cells[9].innerText === "–"`)
	c.await(c.row(c.running) + `.cells[10].innerText === "not measured"`)
	c.await(c.row(c.waiting) + `.cells[10].innerText === "–"`)
	c.steps()
	c.atWidths("filtered jobs", func(int64) { c.tabTo(`e.id === "by-queue"`) })
}

// arraysFold opens and closes the array by the keyboard, which must keep the focus while the list changes.
func (c *scene) arraysFold() {
	c.t.Helper()
	c.visit("#/jobs")
	c.await(c.row(c.array) + `?.querySelector(".fold[aria-expanded=false]")`)
	c.tabTo(`e.className === "fold"`)
	c.key("\r")
	c.await(`location.hash.endsWith("?open=` + c.array + `") && document.querySelectorAll("tr.inside").length >= 2`)
	c.await(`document.activeElement.className === "fold"`)
	time.Sleep(time.Second) // the list has changed meanwhile
	c.accessible("an open array")
	c.key("\r")
	c.await(`!document.querySelector("tr.inside") && document.activeElement.className === "fold"`)
}

// steps lets a job report its progress, which the list must show.
func (c *scene) steps() {
	c.t.Helper()
	id := c.submit("--name", "steps", "--image", "host", "--", "sh", "-c",
		`echo '{"step": 3, "total": 12}' >> "$SYNAPSE_PROGRESS"; sleep 600`)
	c.await(c.row(id) + `?.cells[9].innerText.includes("25%")`)
	c.await(c.row(id) + `.querySelector("progress").value === 25`)
	c.accessible("progress")
	c.run("cancel", id)
	c.await(c.row(id) + `?.innerText.includes("cancelled")`)
}
