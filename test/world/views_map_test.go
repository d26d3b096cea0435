//go:build world

package world

import (
	"fmt"
	"strings"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// This file tests the map of the page: the colours of its jobs, the names, and the card of a GPU.

// card is an expression for the text of the card, or an empty text.
const card = `(document.querySelector("#tip:not([hidden])")?.innerText ?? "")`

// onMap checks that the map and its legend have names, and that the pointer and the keyboard show the same card.
func (c *scene) onMap() {
	c.t.Helper()
	c.looks()
	c.visit("#/map")
	c.await(`document.querySelector("#board").dataset.named === "4"`)
	c.await(`document.querySelector("#jobs-on-map").innerText.includes("first")`)
	js[any](c.surf, `document.activeElement.blur(); 0`)
	c.tabTo(`e.tagName === "CANVAS"`)
	c.await(card + `.startsWith("node-1, GPU 0")`)
	c.key(kb.ArrowRight)
	c.await(card + `.startsWith("node-1, GPU 1")`)
	byKey := js[string](c.surf, card)
	c.accessible("the card of a GPU")
	// The card is 14 pixels away from the GPU.
	js[any](c.surf, `window.at = (() => { const tip = document.querySelector("#tip"), r = document.querySelector("canvas").
		getBoundingClientRect(); return [r.x + parseFloat(tip.style.left) - 14, r.y + parseFloat(tip.style.top) - 14]; })();
		document.activeElement.blur(); 0`)
	c.await(card + ` === ""`)
	js[any](c.surf, `document.querySelector("canvas").dispatchEvent(new PointerEvent("pointermove",
		{ bubbles: true, clientX: window.at[0], clientY: window.at[1] })); 0`)
	if byPointer := js[string](c.surf, card); byPointer != byKey || !strings.Contains(byKey, " GPUs ") {
		c.t.Errorf("the keyboard shows %q, but the pointer %q", byKey, byPointer)
	}
	c.tabTo(`e.innerText === "first"`)
	c.await(card + `.startsWith("first")`)
	c.atWidths("legend", func(int64) {
		c.await(`document.querySelector("#jobs-on-map").innerText.includes("first")`)
	})
	c.key("\r")
	c.await(fmt.Sprintf("location.hash === %q", "#/job/"+c.running))
	c.visit("#/map")
	c.await(`document.querySelector("#board")?.dataset.named === "4"`)
	js[any](c.surf, `document.activeElement.blur(); 0`)
	c.tabTo(`e.tagName === "CANVAS"`)
	c.key("\r")
	c.await(`/^#.(job|node)./.test(location.hash)`)
	c.do(chromedp.EmulateViewport(widths[0], 800))
}

// looks checks the colours of very many jobs of one GPU each. Up to 64 have different colours, and further ones have
// hatching. Neighbours differ even if there are more jobs than looks.
func (c *scene) looks() {
	c.t.Helper()
	js[any](c.surf, `window.clashes = undefined; (async () => {
		const { lookOf, neighbours, part, share } = await import("/looks.js?alone"), { layout } = await import("/map.js");
		const of = (n) => {
			const jobs = Array.from({ length: n }, (_, i) =>
				({ id: "j" + i, phase: "running", gpus: 1000, submitted: i }));
			const boxes = Array.from({ length: Math.ceil(n / 8) }, (_, i) => {
				const own = jobs.slice(8 * i, 8 * i + 8);
				return { id: "n" + i, place: ["r" + (i >> 4)], gpu: [8000, 8000], cpu: [0, 1], mem: [0, 1],
					jobs: own.map((j) => j.id), gpus: own.map((j) => ({ jobs: [j.id], taken: 1000 })) };
			});
			share({ synced: true, jobs: new Map(jobs.map((j) => [j.id, j])) });
			const map = layout(boxes, 1.6);
			part(map);
			const all = jobs.map((j) => lookOf(j.id));
			return [new Set(all).size, all.filter((l) => l.stripe).length, neighbours(map).length].join(" ");
		};
		window.clashes = [64, 65, 192, 4000].map(of);
	})().catch((e) => { window.clashes = [String(e)]; }); 0`)
	c.await("window.clashes")
	got := js[[]string](c.surf, "window.clashes")
	if want := "64 0 0, 65 1 0, 192 128 0, 192"; !strings.HasPrefix(strings.Join(got, ", "), want) ||
		!strings.HasSuffix(got[len(got)-1], " 0") {
		c.t.Errorf("looks, hatched ones and neighbours with the same look: %q", got)
	}
}
