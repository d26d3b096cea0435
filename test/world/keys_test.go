//go:build world

package world

import (
	"fmt"
	"strings"

	"github.com/chromedp/chromedp"
)

// This file tests the web UI without a mouse, and in many tabs of one browser.

// key presses a key.
func (s *surf) key(key string) {
	s.t.Helper()
	s.do(chromedp.KeyEvent(key))
}

// tabTo presses Tab until an element that satisfies an expression has the focus.
func (s *surf) tabTo(what string) {
	s.t.Helper()
	const most = 100
	for range most {
		s.key("\t")
		if js[bool](s, fmt.Sprintf("Boolean(((e) => %s)(document.activeElement))", what)) {
			return
		}
	}
	s.t.Fatalf("%s is not reached by pressing Tab %d times", what, most)
}

// byKeyboard visits the views by their keys, narrows a list to a job by the search, and opens that job.
func (s *surf) byKeyboard(job string) {
	s.t.Helper()
	for key, view := range map[string]string{"m": "map", "n": "nodes", "q": "queues", "t": "over", "e": "events",
		"j": "jobs"} {
		s.key(key)
		s.await(fmt.Sprintf(`location.hash === "#/%s" && document.querySelector("nav [aria-current]")?.hash === "#/%[1]s"`, view))
	}
	s.key("j")
	s.await(`location.hash === "#/jobs" && document.querySelectorAll("tbody tr").length > 1`)
	s.key("/")
	s.await(`document.activeElement.id === "find"`)
	s.do(chromedp.KeyEvent("\b" + job)) // chromedp also sends the character of a key that the page has handled
	s.await(`document.querySelectorAll("tbody tr").length === 1`)
	s.tabTo(fmt.Sprintf(`e.tagName === "A" && e.innerText.includes(%q)`, job))
	s.key("\r")
	s.await(fmt.Sprintf("location.hash === %q", "#/job/"+job))
	s.key("/")
	s.do(chromedp.KeyEvent(strings.Repeat("\b", len(job)+1)))
	s.await(`document.getElementById("find").value === ""`)
	js[any](s, `document.activeElement.blur(); 0`)
	s.tabTo(`e.innerText === "Skip to content"`) // from the top
	s.key("\r")
	s.await(fmt.Sprintf(`document.activeElement.id === "main" && location.hash === %q`, "#/job/"+job))
	s.visit("#/nodes/%E0%A4") // a truncated address
	s.await(`document.querySelector("h1")?.innerText === "Nodes"`)
}

// inTenTabs opens nine more tabs, which need more connections than a browser makes to one server, and submits a job
// while all are open.
func (s *surf) inTenTabs() {
	s.t.Helper()
	var tabs []*surf
	for range 9 {
		ctx, cancel := chromedp.NewContext(s.ctx)
		defer cancel()
		tab := &surf{t: s.t, ctx: ctx, cli: s.cli, config: s.config}
		tab.do(chromedp.Navigate(js[string](s, "location.origin") + "/#/jobs"))
		tabs = append(tabs, tab)
	}
	s.visit("#/jobs")
	late := s.submit("--name", "seen-by-ten", "--image", "host", "--", "true")
	for _, tab := range append(tabs, s) {
		tab.shows(late)
	}
}
