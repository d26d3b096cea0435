//go:build world

package world

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/yi-json/synapse/test/able"
)

// This file tests the page of `synapse-cli web` in a real browser.

// surf is a cluster, its page, and a browser that shows it.
type surf struct {
	t      *testing.T
	ctx    context.Context // of the browser
	cli    string
	config string

	zone      string   // time zone of the browser; empty: the one of the host
	variables []string // environment with which the command line finds the cluster without a configuration

	mu      sync.Mutex
	console []string // errors in the browser's console
}

var pageLink = regexp.MustCompile(`http://127\.0\.0\.1:\d+/\?secret=\S+`)

func newSurf(t *testing.T) *surf {
	bin, folder := programs(t)
	s := &surf{t: t, cli: filepath.Join(bin, "synapse-cli"),
		config: up(t, bin, folder, "--nodes", "4", "--racks", "2", "--gpus", "8")}
	s.browse(s.serve())
	return s
}

// built returns the folder of all programs, built when a test first needs them.
var built = sync.OnceValues(func() (string, error) {
	folder, err := shared("bin")
	if err != nil {
		return "", err
	}
	text, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", folder+"/", "../../cmd/...").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("%w: %s", err, text)
	}
	return folder, nil
})

// sharedFolders lists the folders that are removed after the last test.
var sharedFolders struct {
	sync.Mutex
	names []string
}

// shared creates a folder for several tests, which the users of tasks may pass through.
func shared(name string) (string, error) {
	folder, err := os.MkdirTemp("", "synapse-world-"+name+"-")
	if err != nil {
		return "", err
	}
	sharedFolders.Lock()
	defer sharedFolders.Unlock()
	sharedFolders.names = append(sharedFolders.names, folder)
	return folder, os.Chmod(folder, 0o755)
}

func TestMain(m *testing.M) {
	_ = os.Setenv("TZ", "UTC") // the expected output is the same on every host
	time.Local = time.UTC
	code := m.Run()
	for _, folder := range sharedFolders.names {
		_ = os.RemoveAll(folder)
	}
	os.Exit(code)
}

// programs returns all programs for a test with a browser, and a folder of the test.
func programs(t *testing.T) (bin, folder string) {
	t.Helper()
	able.Need(t, able.Program("chromium"))
	return made(t)
}

// made returns all programs, and a folder of the test.
func made(t *testing.T) (bin, folder string) {
	t.Helper()
	bin, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return bin, room(t)
}

// browse opens a link in a separate browser.
func (s *surf) browse(link string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 15*time.Minute)
	s.t.Cleanup(cancel)
	// A browser does not trust the certificate of a test.
	ctx, cancel = chromedp.NewExecAllocator(ctx, chromedp.NoSandbox, chromedp.Headless, chromedp.DisableGPU,
		chromedp.IgnoreCertErrors, chromedp.Flag("enable-precise-memory-info", true),
		chromedp.Env("TMPDIR="+room(s.t), "TZ="+s.zone)) // it leaves files there
	s.t.Cleanup(cancel)
	s.ctx, cancel = chromedp.NewContext(ctx)
	s.t.Cleanup(cancel)
	s.do(chromedp.EmulateViewport(1280, 800))
	go func() {
		for m, err := range chromedp.Console(s.ctx) {
			if err != nil {
				return
			}
			s.mu.Lock()
			s.console = append(s.console, fmt.Sprintf("%s: %s (%s:%d)", m.Type, m.Text, m.URL, m.Line))
			s.mu.Unlock()
		}
	}()
	s.do(chromedp.Navigate(link))
}

// silent checks that the browser's console has no errors so far.
func (s *surf) silent() {
	s.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.console) > 0 {
		s.t.Errorf("the browser's console has errors:\n%s", strings.Join(s.console, "\n"))
	}
	s.console = nil
}

// serve starts the page, and returns its link.
func (s *surf) serve(more ...string) string {
	s.t.Helper()
	page := exec.Command(s.cli, append([]string{"web", "--no-open"}, more...)...)
	page.Env = s.environment()
	said, err := page.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := page.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = page.Process.Signal(syscall.SIGTERM)
		if err := page.Wait(); err != nil {
			s.t.Errorf("web ended with %v", err)
		}
	})
	lines := bufio.NewScanner(said)
	for lines.Scan() {
		if link := pageLink.FindString(lines.Text()); link != "" {
			go func() { // it prints more, and must not wait for a reader
				for lines.Scan() {
				}
			}()
			return link
		}
	}
	s.t.Fatal("web printed no link")
	return ""
}

// environment returns the environment with which the command line finds the cluster.
func (s *surf) environment() []string {
	if s.config == "" {
		return append(os.Environ(), s.variables...)
	}
	return append(os.Environ(), "SYNAPSE_CONFIG="+s.config)
}

func (s *surf) do(steps ...chromedp.Action[chromedp.Void]) {
	s.t.Helper()
	if err := chromedp.Do(s.ctx, steps...); err != nil {
		s.t.Fatal(err)
	}
}

// js evaluates an expression in the page.
func js[T any](s *surf, expression string) T {
	s.t.Helper()
	value, err := chromedp.Run(s.ctx, chromedp.Evaluate[T](expression))
	if err != nil {
		s.t.Fatalf("%s: %v", expression, err)
	}
	return value
}

// await waits until an expression is true in the page. The expression may fail while the page reloads.
func (s *surf) await(expression string) {
	s.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
		so, err := chromedp.Run(s.ctx, chromedp.Evaluate[bool]("Boolean("+expression+")"))
		switch {
		case err == nil && so:
			return
		case time.Now().After(deadline), s.ctx.Err() != nil:
			s.t.Fatalf("never true: %s (%v)\nthe page shows:\n%s", expression, err,
				js[string](s, "document.body?.innerText ?? ''"))
		}
	}
}

// shows waits until the page shows a text.
func (s *surf) shows(text string) {
	s.t.Helper()
	s.await(fmt.Sprintf("document.body.innerText.includes(%q)", text))
}

func (s *surf) visit(hash string) {
	s.t.Helper()
	js[string](s, fmt.Sprintf("location.hash = %q", hash))
}

// run runs the command line, and returns its output.
func (s *surf) run(words ...string) string {
	s.t.Helper()
	command := exec.CommandContext(s.t.Context(), s.cli, words...)
	command.Env = s.environment()
	text, err := command.CombinedOutput()
	if err != nil {
		s.t.Fatalf("%q: %v: %s", words, err, text)
	}
	return string(text)
}

// submit submits a job, and returns its ID.
func (s *surf) submit(words ...string) string {
	s.t.Helper()
	return strings.TrimSpace(s.run(append([]string{"submit", "-q"}, words...)...))
}

// TestPage shows a real cluster in Chromium: every view, a gang from its wait to its end, permitted actions, and the
// same numbers as the command line. It is one test, because a cluster and a browser take long to start.
func TestPage(t *testing.T) {
	t.Parallel()
	s := newSurf(t)
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("0 of 32 GPUs")`)
	first := s.submit("--name", "first", "-n", "2", "--gpus-per-task", "8", "--image", "host", "--", "sleep", "600")
	second := s.submit("--name", "second", "-n", "3", "--gpus-per-task", "8", "--image", "host", "--", "sh", "-c",
		"echo '<img src=x onerror=alert(1)>'; sleep 3")
	s.visit("#/jobs")
	phase := func(id string) string {
		return fmt.Sprintf(`[...document.querySelectorAll("tbody tr")].find((r) => r.innerText.includes(%q))?.cells[2].innerText`, id)
	}
	s.await(phase(first) + ` === "running"`)
	s.await(phase(second) + ` === "queued"`)
	s.sameAsCommandLine()
	s.visit("#/map") // a job that started after the page was opened is on the map
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("16 of 32 GPUs")`)
	s.everyView(first, second)
	s.byKeyboard(first)
	s.onTheMap(first)
	s.wayOut(second)
	s.cancelByHand(first)
	s.visit("#/jobs")
	s.await(phase(second) + ` === "running"`)
	s.readsOutput(second)
	s.visit("#/jobs")
	s.await(phase(second) + ` === "succeeded"`)
	s.sameAsCommandLine()
	s.inTenTabs()
	s.drained()
	s.owned()
	s.silent()
}

// owned checks that the table of queues shows who may use each, once a queue has owners.
func (s *surf) owned() {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "queues.yaml")
	text := "apiVersion: synapse/v1\nkind: Queues\ndefault: open\nqueues:\n" +
		"- {name: open}\n- {name: lab, owners: [ann, \"group:ml\"]}\n- {name: leads, parent: lab, owners: [zoe]}\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.run("apply", "-f", file)
	s.visit("#/queues")
	for _, words := range []string{"all users", "ann, group:ml", "zoe; in lab: ann, group:ml"} {
		s.shows(words)
	}
}

// everyView views each view, dark and light. Nothing may be too wide for a phone, and axe must find no errors.
func (s *surf) everyView(running, waiting string) {
	s.t.Helper()
	s.loadAxe()
	for i, view := range []struct{ hash, text string }{
		{"#/map", "GPUs in use"}, {"#/jobs", waiting}, {"#/nodes", "node-4"}, {"#/queues", "Average borrowed"},
		{"#/over", "Waiting jobs by reason"}, {"#/events", "Recent changes"}, {"#/job/" + running, "Ranks"},
		{"#/job/" + waiting, "Why it is waiting"}, {"#/node/node-1", "Topology"},
	} {
		s.visit(view.hash)
		s.shows(view.text)
		for _, width := range []int64{1280, 768, 360} {
			s.do(chromedp.EmulateViewport(width, 800))
			if wide := js[int64](s, "document.documentElement.scrollWidth"); wide > width {
				s.t.Errorf("%s is %d wide on a screen of %d", view.hash, wide, width)
			}
			s.keep(fmt.Sprintf("%d-%d", i, width))
		}
		s.do(chromedp.EmulateViewport(1280, 800))
		for range 2 {
			s.do(chromedp.Click("#theme"))
			s.accessible(view.hash)
		}
	}
}

// loadAxe loads axe into the page for accessible.
func (s *surf) loadAxe() {
	s.t.Helper()
	axe, err := os.ReadFile("testdata/axe.min.js")
	if err != nil {
		s.t.Fatal(err)
	}
	js[any](s, string(axe)+"; 0")
}

// keep stores a screenshot of the page with the results of the tests.
func (s *surf) keep(name string) {
	s.t.Helper()
	picture, err := chromedp.Run(s.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(s.t.ArtifactDir(), name+".png"), picture, 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// accessible runs axe, which finds accessibility errors such as low contrast and missing names.
func (s *surf) accessible(hash string) {
	s.t.Helper()
	js[any](s, `window.found = undefined; axe.run({ preload: false, resultTypes: ["violations"] }).then((r) => { window.found =
		r.violations.map((v) => v.id + ": " + v.nodes.map((n) => n.html + " " + n.failureSummary).join(" | ")); }); 0`)
	s.await("window.found")
	if found := js[[]string](s, "window.found"); len(found) > 0 {
		s.t.Errorf("%s: %s", hash, strings.Join(found, "\n"))
	}
}

// cancelByHand cancels a job with the keyboard alone. The page must ask for confirmation, and show the command.
func (s *surf) cancelByHand(id string) {
	s.t.Helper()
	s.visit("#/job/" + id)
	s.shows("Cancel")
	s.tabTo(`e.innerText === "Cancel"`)
	s.do(chromedp.KeyEvent("\r"), chromedp.WaitVisible("#ask-reason"))
	s.await(`document.activeElement.id === "ask-reason"`)
	s.do(chromedp.KeyEvent("it's <b>wrong</b>; rm -rf /"))
	if got, want := js[string](s, `document.getElementById("ask-command").innerText`),
		`synapse-cli cancel `+id+` --reason 'it'\''s <b>wrong</b>; rm -rf /'`; got != want {
		s.t.Errorf("the command is %s, not %s", got, want)
	}
	s.tabTo(`e.id === "ask-yes"`)
	s.key("\r")
	s.shows("cancelled")
	s.shows("it's <b>wrong</b>") // it stays text
	if text := s.run("describe", "job", id); !strings.Contains(text, "it's <b>wrong</b>; rm -rf /") {
		s.t.Errorf("the reason did not arrive:\n%s", text)
	}
}

// onTheMap follows a job to its place on the map with its ranks, and reads its changes.
func (s *surf) onTheMap(running string) {
	s.t.Helper()
	s.visit("#/job/" + running)
	s.shows("Recent changes")
	s.press("show on the map")
	s.shows("Map: nodes of first")
	s.accessible("where a job is")
	s.keep("where a job is")
	s.press("show all jobs")
	s.await(`document.querySelector("h1")?.innerText === "Map"`)
}

// press clicks a link of the view when it is present.
func (s *surf) press(text string) {
	s.t.Helper()
	s.await(fmt.Sprintf(`(() => { const link = [...document.querySelectorAll("main a")].find((a) => a.innerText === %q);
		link?.click();
		return link; })()`, text))
}

// wayOut opens a suggestion for a waiting job, which shows the change of the job file and stays open while the page
// changes.
func (s *surf) wayOut(id string) {
	s.t.Helper()
	s.visit("#/job/" + id)
	s.shows("To start now")
	js[any](s, `[...document.querySelectorAll("summary")].find((e) => e.innerText.includes("(2 tasks)")).focus(); 0`)
	s.do(chromedp.KeyEvent("\r"))
	s.shows("-     replicas: 3")
	s.shows("+     replicas: 2")
	time.Sleep(6 * time.Second) // ages have grown meanwhile
	s.shows("+     replicas: 2")
}

// readsOutput reads a task's output, which must stay text.
func (s *surf) readsOutput(id string) {
	s.t.Helper()
	s.visit("#/job/" + id)
	// The bar .ran exists once the attempt has passed its barrier.
	s.await(`/reserved nodes: .*, prepared nodes: .*, started tasks: .*, attempt 1 ran: /.test(
		document.querySelector(".lane").getAttribute("aria-label")) &&
		document.querySelector(".lane .made") && document.querySelector(".lane .ran")`)
	s.shows("Output of 0")
	js[any](s, `[...document.querySelectorAll("main button")].find((b) => b.innerText === "Output of 0").click(); 0`)
	s.shows("<img src=x onerror=alert(1)>")
	seek := func(word string, there bool) {
		s.t.Helper()
		js[any](s, fmt.Sprintf(`(() => { const input = document.getElementById("log-find"); input.value = %q;
			input.dispatchEvent(new Event("input")); })(); 0`, word))
		s.await(fmt.Sprintf(`document.querySelector("pre.logs").innerText.includes("onerror") === %v`, there))
	}
	seek("no such word", false)
	seek("ONERROR", true)
	s.accessible("the output of a rank")
}

// drained drains a node with the command line, and sees the page change. The reason must stay text.
func (s *surf) drained() {
	s.t.Helper()
	s.visit("#/node/node-3")
	s.shows("Drain")
	// Names of jobs, owners and queues cannot contain such characters, and labels of a job are never sent. Only
	// reasons and output of tasks can contain markup.
	const reason = "a fan </td></script><img src=x onerror=alert(1)>naf a"
	s.run("drain", "node-3", "--reason", reason)
	for _, hash := range []string{"#/node/node-3", "#/nodes", "#/events"} {
		s.visit(hash)
		s.await(fmt.Sprintf(`document.querySelector("main").textContent.includes(%q)`, reason))
		if n := js[int64](s, `document.querySelectorAll("main img, main script").length`); n > 0 {
			s.t.Errorf("%s: a reason became %d elements", hash, n)
		}
	}
	s.visit("#/node/node-3")
	s.shows("Uncordon")
}

// sameAsCommandLine compares the list of jobs with that of the command line, while nothing changes.
func (s *surf) sameAsCommandLine() {
	s.t.Helper()
	var want []string
	for _, row := range strings.Split(strings.TrimSpace(s.run("get", "jobs", "--no-headers")), "\n") {
		want = append(want, strings.Join(strings.Fields(row)[:5], " "))
	}
	s.await(fmt.Sprintf(`document.querySelectorAll("tbody tr").length === %d`, len(want)))
	got := js[[]string](s, `[...document.querySelectorAll("tbody tr")].map((r) =>
		[...r.cells].slice(0, 5).map((c) => c.innerText.trim()).join(" "))`)
	slices.Sort(want)
	slices.Sort(got)
	if !slices.Equal(got, want) {
		s.t.Errorf("the page shows\n%s\nbut the command line\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
