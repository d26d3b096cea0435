//go:build world

package world

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// This file tests a recording in a real browser, without its cluster.

// TestRecord shows a recording from a folder by file://, with a policy that forbids all requests, and with the command.
// It checks the map, the jobs, a job, and earlier times.
func TestRecord(t *testing.T) {
	t.Parallel()
	bin, folder := programs(t)
	s := &surf{t: t, cli: filepath.Join(bin, "synapse-cli"),
		config: up(t, bin, folder, "--nodes", "2", "--racks", "2", "--gpus", "8")}
	record, out := filepath.Join(folder, "a.record"), filepath.Join(folder, "shown")
	command := exec.Command(s.cli, "web", "--record", record)
	command.Env = s.environment()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	has := func(text string) {
		t.Helper()
		for limit := time.Now().Add(2 * time.Minute); ; time.Sleep(100 * time.Millisecond) {
			if so, _ := os.ReadFile(record); strings.Contains(string(so), text) { // none: it has not begun
				return
			}
			if time.Now().After(limit) {
				t.Fatalf("the recording has no %s", text)
			}
		}
	}
	has(`"synced":true`) // of a cluster without running jobs
	job := s.submit("--name", "recorded", "-n", "2", "--gpus-per-task", "8", "--image", "host", "--", "sleep", "600")
	has(`"taken":1000`)
	has(`"phase":"running"`)
	s.run("cancel", job)
	has(`["detail",{"row":{"id":"` + job + `","name":"recorded","owner":"`)
	has(`"phase":"cancelled"`)
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	s.config = "" // the cluster is unknown from here on
	s.run("web", "--replay", record, "--out", out)
	s.browse("file://" + out + "/index.html")
	s.await(`document.querySelector("#player input")`)
	// Each moment must be viewable, however fast it plays.
	seen := js[[]string](s, `(() => {
		const slide = document.querySelector("#player input"), seen = new Set();
		for (let at = Number(slide.min); at <= Number(slide.max); at += 100) {
			slide.value = at;
			slide.dispatchEvent(new Event("input"));
			seen.add(document.querySelector("canvas").getAttribute("aria-label").match(/: (.*) GPUs/)[1]);
		}
		slide.value = slide.max;
		slide.dispatchEvent(new Event("input"));
		return [...seen];
	})()`)
	if !slices.Contains(seen, "0 of 16") || !slices.Contains(seen, "16 of 16") {
		t.Errorf("the recording shows %q", seen)
	}
	s.visit("#/job/" + job)
	s.shows("Ranks")
	s.shows("cancelled")
	s.visit("#/jobs")
	s.shows("recorded")
	if n := js[int](s, `document.querySelectorAll("main .buttons button").length`); n != 0 {
		t.Errorf("a recording has %d buttons for actions", n)
	}
	js[any](s, `document.querySelector("#player input").value = 0; 0`)
	js[any](s, `document.querySelector("#player input").dispatchEvent(new Event("input")); 0`)
	s.await(fmt.Sprintf(`!document.body.innerText.includes(%q)`, job))
	s.shows("Play")
	s.loadAxe()
	s.accessible("a record")
	s.do(chromedp.EmulateViewport(360, 800))
	if wide := js[int64](s, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("a recording is %d wide", wide)
	}
	s.keep("record")
	s.silent()
	s.do(chromedp.Navigate(s.serve("--replay", record)))
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("of 16 GPUs")`)
	s.silent()
}
