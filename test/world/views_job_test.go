//go:build world

package world

import (
	"fmt"

	"github.com/chromedp/chromedp"
)

// This file tests the page of a job: its timeline, its GPU-hours, and the output of its ranks.

// jobPage lets a gang of two tasks fail once and then run, and reads its page.
func (c *scene) jobPage() {
	c.t.Helper()
	id := c.submit("--name", "twice", "-n", "2", "--gpus-per-task", "1", "--cpu", "1", "--mem", "64Mi",
		"--time-limit", "1h", "--restarts", "1", "--image", "host", "--", "sh", "-c", `echo "rank $SYNAPSE_RANK says hello"; echo another line
		[ "$SYNAPSE_RUN" = 1 ] && sleep 5 && exit 3; for i in $(seq 600); do echo "tick $i"; sleep 1; done`)
	c.visit("#/job/" + id)
	c.await(`document.querySelectorAll('[aria-label="Attempts"] tbody tr').length === 2`)
	const steps = `[...document.querySelectorAll(".steps li")].map((e) => e.querySelector("strong").innerText).join(" ")`
	const want = `/^submitted (planned )?reserving reserved prepared started ended (planned )?reserving reserved prepared started time limit$/`
	c.await(want + `.test(` + steps + `)`)
	c.await(`document.querySelector(".lane").getAttribute("aria-label").includes("attempt 1 ran")`)
	c.await(`[...document.querySelectorAll("main dt")].some((e) => e.innerText === "GPU-hours" &&
		/^0\.00\d+ used, 0\.00\d+ lost$/.test(e.nextSibling.innerText))`)
	c.await(`[...document.querySelectorAll("main dt")].some((e) => e.innerText === "Progress" && e.nextSibling.innerText === "not measured")`)
	c.readsAnyRank()
	c.run("cancel", id)
	c.await(`document.querySelector(".steps").innerText.includes("finished cancelled")`)
	c.await(`document.querySelector('section[aria-label="Output"]').innerText.includes("The task has ended.")`)
	c.visit("#/job/" + c.waiting)
	c.await(`["Needs", "In use"].every((label) => [...document.querySelectorAll(".explained th")].some((e) => e.innerText === label))`)
}

// readsAnyRank reads the output of both ranks by the keyboard, follows it, and searches in it.
func (c *scene) readsAnyRank() {
	c.t.Helper()
	const output = `document.querySelector("pre.logs")?.innerText ?? ""`
	shows := func(text string, so bool) {
		c.t.Helper()
		c.await(fmt.Sprintf(`(%s).includes(%q) === %v`, output, text, so))
	}
	c.tabTo(`e.innerText === "Output of 0"`)
	c.key("\r")
	shows("rank 0 says hello", true)
	shows("tick 3", true) // it is followed
	js[any](c.surf, `document.getElementById("log-rank").focus(); document.getElementById("log-rank").select(); 0`)
	c.do(chromedp.KeyEvent("1\r"))
	shows("rank 1 says hello", true)
	js[any](c.surf, `document.getElementById("log-find").focus(); 0`)
	c.do(chromedp.KeyEvent("HELLO"))
	shows("tick 3", false)
	c.await(`document.querySelector('section[aria-label="Output"]').innerText.includes("1 line matches.")`)
	c.await(`document.activeElement.id === "log-find" && document.activeElement.value === "HELLO"`) // while the page changes
	c.atWidths("output", func(int64) { shows("rank 1 says hello", true) })
	js[any](c.surf, `document.getElementById("log-find").value = ""; document.getElementById("log-find").oninput();
		document.getElementById("log-follow").click(); 0`)
	c.await(`document.querySelector('section[aria-label="Output"]').innerText.includes("This is the output so far.")`)
	js[any](c.surf, `document.getElementById("log-follow").click(); 0`)
	c.await(`document.querySelector('section[aria-label="Output"]').innerText.includes("Following the output.")`)
}
