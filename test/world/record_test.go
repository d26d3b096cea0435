//go:build world

package world

import (
	"fmt"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// This file owns a record in a real browser, without its cluster.

// TestRecord: what was recorded is shown from a folder, by file:// and under a policy that lets nothing be fetched: the
// map, the jobs, a job, and how it was before; and by the command.
func TestRecord(t *testing.T) {
	bin, folder := programs(t)
	s := &surf{t: t, cli: filepath.Join(bin, "synapse-cli"),
		config: up(t, bin, folder, "--nodes", "2", "--racks", "2", "--gpus", "8")}
	record, out := filepath.Join(folder, "a.record"), filepath.Join(folder, "shown")
	command := exec.Command(s.cli, "web", "--record", record)
	command.Env = s.environment()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second) // of a cluster in which nothing runs
	job := s.submit("--name", "recorded", "-n", "2", "--gpu", "8", "--image", "host", "--", "sleep", "1")
	s.run("wait", job)
	time.Sleep(3 * time.Second)
	if err := command.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil {
		t.Fatal(err)
	}
	s.config = "" // nobody knows of a cluster from here on
	s.run("web", "--replay", record, "--out", out)
	s.browse("file://" + out + "/index.html")
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("0 of 16 GPUs")`)
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("16 of 16 GPUs")`)
	s.visit("#/job/" + job)
	s.shows("Ranks")
	s.shows("succeeded")
	s.visit("#/jobs")
	s.shows("recorded")
	if n := js[int](s, `[...document.querySelectorAll("main button")].length`); n != 0 {
		t.Errorf("a record has %d buttons", n)
	}
	js[any](s, `document.querySelector("#player input").value = 0; 0`)
	js[any](s, `document.querySelector("#player input").dispatchEvent(new Event("input")); 0`)
	s.await(fmt.Sprintf(`!document.body.innerText.includes(%q)`, job))
	s.shows("Play")
	s.loadAxe()
	s.accessible("a record")
	s.do(chromedp.EmulateViewport(360, 800))
	if wide := js[int64](s, "document.documentElement.scrollWidth"); wide > 360 {
		t.Errorf("a record is %d wide", wide)
	}
	s.keep("record")
	s.silent()
	s.do(chromedp.Navigate(s.serve("--replay", record)))
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("of 16 GPUs")`)
	s.silent()
}
