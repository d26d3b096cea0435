//go:build world

package world

import (
	"flag"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/chromedp"
)

// This file takes the screenshots of README and docs/operate/web.md from a real run.

var pictures = flag.String("world.pictures", "", "write README's pictures into this `folder`")

// TestPictures is no test: `make pictures` takes the screenshots with it. Some gangs run, one waits for its reserved
// nodes, and a node is drained.
func TestPictures(t *testing.T) {
	if *pictures == "" {
		return
	}
	bin, folder := programs(t)
	s := &surf{t: t, cli: filepath.Join(bin, "synapse-cli"),
		config: up(t, bin, folder, "--nodes", "16", "--racks", "4", "--gpus", "8", "--join-timeout", "3m")}
	s.browse(s.serve())
	for _, job := range []struct{ name, tasks, gpus string }{
		{"llama", "4", "8"}, {"bert", "2", "8"}, {"diffusion", "3", "8"}, {"ablation", "6", "2"}, {"notebook", "1", "1"},
	} {
		s.submit("--name", job.name, "-n", job.tasks, "--gpus-per-task", job.gpus,
			"--cpu", "1", "--mem", "1Gi", "--time-limit", "2h",
			"--image", "host", "--", "sleep", "600")
	}
	waits := s.submit("--name", "mixtral", "-n", "8", "--gpus-per-task", "8",
		"--cpu", "1", "--mem", "1Gi", "--time-limit", "4h",
		"--image", "host", "--", "sleep", "600")
	s.run("drain", "node-16", "--reason", "a fan is loud")
	s.await(`document.querySelector("canvas")?.getAttribute("aria-label").includes("85 of 128 GPUs")`)
	s.visit("#/job/" + waits)
	s.await(`[...document.querySelectorAll("main dt")].some((e) => e.innerText === "Reserved nodes")`)
	s.shows("To start now")
	js[any](s, `document.querySelector("summary")?.click(); 0`)
	s.picture("job.png")
	s.visit("#/map")
	s.await(`document.querySelector("canvas")`)
	time.Sleep(time.Second) // the nodes have been drawn
	s.picture("map.png")
	s.silent()
}

// picture stores a screenshot.
func (s *surf) picture(name string) {
	s.t.Helper()
	s.do(chromedp.EmulateViewport(1280, 760))
	text, err := chromedp.Run(s.ctx, chromedp.CaptureScreenshot())
	if err == nil {
		err = os.WriteFile(filepath.Join(*pictures, name), text, 0o644)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}
