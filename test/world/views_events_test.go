//go:build world

package world

import (
	"fmt"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// This file tests the events, the times, the search and the dialogs of the page.

// asEvents checks that events are in the order of time and have names, and that each view has the time zone of the
// browser, with UTC in the tooltip.
func (c *scene) asEvents() {
	c.t.Helper()
	c.visit("#/events")
	c.await(`document.querySelectorAll(".told li").length > 4`)
	if ordered := js[bool](c.surf, `[...document.querySelectorAll(".told time")].map((e) => e.dateTime).every((at, i, all) =>
		i === 0 || at <= all[i - 1])`); !ordered {
		c.t.Error("the events are not in the order of time")
	}
	c.await(`[...document.querySelectorAll(".told li")].some((e) => e.querySelector("a").innerText === "first" &&
		/ running on node-/.test(e.innerText) && !/job j/.test(e.innerText))`)
	c.await(`(() => { const e = document.querySelector(".told time"), at = new Date(e.dateTime); return at.getTimezoneOffset() === -330 &&
		e.innerText === at.toLocaleTimeString() && e.title === at.toISOString().slice(0, 19).replace("T", " ") + " UTC"; })()`)
	c.atWidths("events", func(int64) { c.shows("newest first") })
	c.visit("#/job/" + c.waiting)
	c.await(`[...document.querySelectorAll("main dt")].find((e) => e.innerText === "Starts")?.nextSibling.querySelector("time[title$=UTC]")`)
	for _, hash := range []string{"#/jobs", "#/job/" + c.waiting, "#/job/" + c.running, "#/events", "#/node/node-1"} {
		c.visit(hash)
		c.await(`document.querySelector("main h1")`)
		if js[bool](c.surf, `/\d\d:\d\dZ/.test(document.querySelector("main").innerText)`) {
			c.t.Errorf("%s has a time in another time zone: %s", hash, js[string](c.surf, `document.querySelector("main").innerText`))
		}
	}
}

// found checks that the search shows results while the user types, and opens them by the keyboard and by a click.
func (c *scene) found() {
	c.t.Helper()
	results := func(word, want string) {
		c.t.Helper()
		js[any](c.surf, `document.getElementById("find").value = ""; document.getElementById("find").focus(); 0`)
		c.do(chromedp.KeyEvent(word))
		c.await(fmt.Sprintf(`document.querySelector("#found:not([hidden])")?.innerText.includes(%q)`, want))
	}
	c.visit("#/map")
	results("fir", "job first")
	c.key(kb.ArrowDown)
	c.await(`document.activeElement.getAttribute("aria-activedescendant") === "found-0"`)
	c.atWidths("search", func(int64) {})
	c.key("\r")
	c.await(fmt.Sprintf("location.hash === %q", "#/job/"+c.running))
	results("node-2", "node node-2")
	js[any](c.surf, `document.querySelector("#found li").dispatchEvent(new MouseEvent("mousedown", { bubbles: true, cancelable: true })); 0`)
	c.await(`location.hash === "#/node/node-2"`)
	results("resea", "queue research")
	c.key(kb.ArrowDown)
	c.key("\r")
	c.await(fmt.Sprintf(`location.hash === "#/jobs?queue=research" && %s === %q`, ids, c.waiting))
	results("nowhere", "No job, node, queue or owner matches")
	c.key(kb.Escape)
	c.await(`document.querySelector("#found").hidden`)
	js[any](c.surf, `document.getElementById("find").value = ""; document.getElementById("find").dispatchEvent(new Event("input")); 0`)
}

// asked checks that the buttons of a dialog say what they do, and that the button that does nothing changes nothing.
func (c *scene) asked() {
	c.t.Helper()
	for id, keep := range map[string]string{c.running: "Keep running", c.waiting: "Keep waiting"} {
		c.visit("#/job/" + id)
		c.shows("Cancel")
		c.tabTo(`e.innerText === "Cancel"`)
		c.key("\r")
		c.await(fmt.Sprintf(`document.getElementById("ask").open && document.getElementById("ask-yes").innerText === "Cancel job" &&
			document.getElementById("ask-no").innerText === %q`, keep))
		c.atWidths("dialog", func(int64) {})
		c.tabTo(`e.id === "ask-no"`)
		c.key("\r")
		c.await(`!document.getElementById("ask").open`)
	}
	c.visit("#/jobs")
	c.await(c.row(c.running) + `?.innerText.includes("running")`)
}

// looksBack checks that the page switches to the past at once, before the first answer, and back.
func (c *scene) looksBack() {
	c.t.Helper()
	c.visit("#/jobs")
	if !js[bool](c.surf, `(() => { const press = document.getElementById("past"); press.click();
		return press.getAttribute("aria-pressed") === "true" && document.querySelector("#player").innerText.includes("Loading") &&
			!document.querySelector("tbody tr"); })()`) {
		c.t.Error("the page does not switch at once")
	}
	c.await(`document.querySelector("#player input") || document.querySelector("#player").innerText.includes("No earlier state")`)
	c.atWidths("past", func(int64) {})
	c.tabTo(`e.innerText === "Back to live view"`)
	c.key("\r")
	c.await(`!document.getElementById("player") && ` + c.row(c.running))
}
