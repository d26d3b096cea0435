//go:build world

package world

import (
	"fmt"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// This file tests the views of the page on a wide screen, a tablet and a phone.

// widths are the screens on which each view is checked.
var widths = []int64{1440, 800, 390}

// scene is a cluster with one job of each kind that a view shows in its own way.
type scene struct {
	*surf
	running, waiting, failed, array string
}

// TestPageViews drives each view in Chromium at three widths, with the mouse and with the keyboard. It is one test,
// because a cluster and a browser take long to start.
func TestPageViews(t *testing.T) {
	t.Parallel()
	c := &scene{surf: newSurf(t)}
	submit := func(words ...string) string {
		return c.submit(append(words, "--cpu", "1", "--mem", "64Mi", "--image", "host", "--", "sleep", "600")...)
	}
	long := "a-name-of-many-words-" + strings.Repeat("x", 40)
	c.running = submit("--name", "first", "-n", "2", "--gpu", "8", "--time-limit", "2h", "--label", "team=vision")
	c.waiting = submit("--name", long, "-n", "3", "--gpu", "8", "--queue", "research", "--label", "team=speech")
	c.array = submit("--name", "sweep", "--array", "0-5%2", "--gpu", "1")
	c.failed = c.submit("--name", "wrong", "--image", "host", "--", "false")
	c.visit("#/jobs")
	c.await(c.row(c.running) + `?.innerText.includes("running")`)
	c.await(c.row(c.failed) + `?.innerText.includes("failed")`)
	c.loadAxe()
	c.asCards()
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
