//go:build world

package world

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// This file tests the submit of jobs from the page.

// TestPageSubmit submits a job file and a copy of a job in Chromium, with the keyboard alone. It checks the errors of
// a file, the dry run, the audit log, and that the page never gets the command.
func TestPageSubmit(t *testing.T) {
	t.Parallel()
	bin, folder := programs(t)
	c := &scene{surf: &surf{t: t, cli: filepath.Join(bin, "synapse-cli"),
		config: up(t, bin, folder, "--nodes", "2", "--racks", "1", "--gpus", "8")}}
	c.browse(c.serve())
	c.recordAnswers()
	c.await(`!document.getElementById("submits").hidden`)
	c.key("s")
	c.await(`location.hash === "#/submit" && document.getElementById("job-file")`)
	c.loadAxe()
	c.typed("apiVersion: synapse/v1\nkind: Job\nmetadata:\n  name: by-page\nspec:\n  gangs: 1\n")
	c.await(`document.querySelectorAll("#job-problems li").length > 0 &&
		document.getElementById("job-file").getAttribute("aria-invalid") === "true"`)
	c.atWidths("submit with errors", func(int64) {})
	c.tabTo(`e.innerText.startsWith("Line 6, column 3")`)
	c.key("\r")
	c.await(`document.activeElement.id === "job-file" && document.activeElement.value.slice(document.activeElement.selectionStart).startsWith("gangs")`)

	const file = "apiVersion: synapse/v1\nkind: Job\nmetadata:\n  name: by-page\nspec:\n  image: host\n" +
		"  gang:\n    replicas: 2\n  resources:\n    gpu: 8\n" +
		"  env:\n    WORD: hush-env\n  command: [sh, -c, \"echo hush-command\"]\n"
	c.typed(file)
	c.shows("The job file has no errors.")
	c.tabTo(`e.innerText === "Dry run"`)
	c.key("\r")
	c.shows("would start now on node-1, node-2")
	c.atWidths("submit with a dry run", func(int64) {})
	c.tabTo(`e.innerText === "Submit job"`)
	c.key("\r")
	c.await(`document.querySelector("#job-done a")`)
	hash := sha256.Sum256([]byte(file))
	source := hex.EncodeToString(hash[:])
	c.shows(source)
	id := js[string](c.surf, `document.querySelector("#job-done a").innerText`)
	c.tabTo(fmt.Sprintf(`e.tagName === "A" && e.innerText === %q`, id))
	c.key("\r")
	c.shows("by-page")
	copied := c.runAgain(id)
	if jobs := strings.Fields(c.run("get", "jobs", "-o", "name")); len(jobs) != 2 {
		t.Errorf("the jobs are %v", jobs)
	}
	if text := c.run("get", "job", copied, "-o", "yaml"); !strings.Contains(text, "hush-command") ||
		!strings.Contains(text, "hush-env") {
		t.Errorf("the copy is\n%s", text)
	}
	c.inAudit(folder, "web_source=sha256:"+source, "job="+id+" ", "web_source=again")
	if got := js[string](c.surf, `window.answers.join("\n")`); strings.Contains(got, "hush") || !strings.Contains(got, id) {
		t.Errorf("the page got\n%s", got)
	}
	c.silent()
}

// recordAnswers keeps every answer to a submit in the page, for the test.
func (c *scene) recordAnswers() {
	c.t.Helper()
	js[any](c.surf, `window.answers = []; const send = window.fetch; window.fetch = async (...all) => {
		const answer = await send(...all);
		if (/^.(check|try|submit|again|act|job)/.test(all[0])) window.answers.push(await answer.clone().text());
		return answer;
	}; 0`)
}

// typed replaces the text of the form by typing.
func (c *scene) typed(text string) {
	c.t.Helper()
	js[any](c.surf, `document.getElementById("job-file").focus(); document.getElementById("job-file").select(); 0`)
	c.do(chromedp.KeyEvent(strings.ReplaceAll(text, "\n", "\r")))
	c.await(fmt.Sprintf(`document.getElementById("job-file").value === %q`, text))
}

// runAgain submits a copy of a job with the keyboard, and returns the ID of the copy.
func (c *scene) runAgain(id string) string {
	c.t.Helper()
	c.tabTo(`e.innerText === "Run again"`)
	c.do(chromedp.KeyEvent("\r"), chromedp.WaitVisible("#ask-command"))
	if got, want := js[string](c.surf, `document.getElementById("ask-command").innerText`),
		"synapse-cli submit --from "+id; got != want {
		c.t.Errorf("the command is %s, not %s", got, want)
	}
	c.atWidths("run again", func(int64) {})
	c.tabTo(`e.id === "ask-yes"`)
	c.key("\r")
	c.await(fmt.Sprintf(`location.hash.startsWith("#/job/") && !location.hash.endsWith(%q)`, id))
	return js[string](c.surf, `location.hash.split("/").pop()`)
}

// inAudit checks that the audit log of the cluster has these texts.
func (c *scene) inAudit(folder string, texts ...string) {
	c.t.Helper()
	var all string
	_ = filepath.WalkDir(folder, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Name() == "audit.log" {
			text, _ := os.ReadFile(path)
			all += string(text)
		}
		return nil
	})
	for _, text := range texts {
		if !strings.Contains(all, text) {
			c.t.Errorf("the audit log has no %q:\n%s", text, all)
		}
	}
}
