//go:build world

package world

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file tests that a PyTorch gang that restarts in place survives the end of its processes.

var (
	killCount = flag.Int("kills", 1, "how often TestKilledTraining kills a process; 10 for its figures")
	killEvery = flag.Duration("kill-every", 3*time.Second, "how long the gang trains before each; 1m for its figures")
)

// killedStep is the pause of each training step.
const killedStep = 50 * time.Millisecond

// TestKilledTraining trains examples/saves.yaml on two nodes with two processes each, with a checkpoint after each
// step. A process is killed again and again. The gang restarts in place each time, loses at most one complete step, and
// finishes.
func TestKilledTraining(t *testing.T) {
	able.Need(t, able.Program("torchrun"), able.Root)
	if text, err := exec.Command("/usr/bin/python3", "-c", "import torch").CombinedOutput(); err != nil {
		t.Skipf("this host has no PyTorch for /usr/bin/python3 (Debian: python3-torch): %s", text)
	}
	bin, folder := made(t)
	g := &guest{t: t, here: room(t), bin: bin, config: up(t, bin, folder, "--nodes", "2", "--gpus", "2")}
	var stop context.CancelFunc
	g.ctx, stop = context.WithTimeout(t.Context(), 25*time.Minute)
	defer stop()
	g.copyExample("checkpoint: {grace: 2m}", "restart: {inPlace: true, limit: 100, grace: 2s, backoff: 100ms}\n"+
		"  checkpoint: {grace: 2m}", `OMP_NUM_THREADS: "1"`, `OMP_NUM_THREADS: "1", EVERY: "1"`)
	steps := int(time.Duration(*killCount+1) * *killEvery / killedStep)
	job := g.train("killed", steps, fmt.Sprint(killedStep.Seconds()))
	most := 0
	for n := 1; n <= *killCount; n++ {
		most = max(most, g.killed(job, n))
	}
	g.until(job, "killed", "job succeeded", func() bool { return g.phase(job) == "succeeded" })
	if got := len(g.losses("killed")); got != steps {
		t.Errorf("%d of %d steps have a loss", got, steps)
	}
	said := g.cli("history", "-o", "json")
	if n := strings.Count(said, `"restartedInPlace"`); n != *killCount {
		t.Errorf("%d of %d attempts restarted in place:\n%s", n, *killCount, said)
	}
	t.Logf("%d kills: each lost at most %d complete steps", *killCount, most)
	t.Log(g.cli("describe", "job", job))
}

// killed lets attempt n train for a while, and kills one of its processes. It returns the number of complete steps that
// the next attempt repeats.
func (g *guest) killed(job string, n int) (lost int) {
	g.t.Helper()
	g.until(job, "killed", fmt.Sprintf("attempt %d", n), func() bool {
		return len(beginning.FindAllString(g.logs("killed"), -1)) >= n
	})
	time.Sleep(*killEvery)
	trainers := g.trainers(filepath.Join(g.here, "killed"))
	if len(trainers) != 4 {
		g.t.Fatalf("attempt %d has the processes %v\n%s", n, trainers, g.logs("killed"))
	}
	if err := syscall.Kill(trainers[n%4], syscall.SIGKILL); err != nil {
		g.t.Fatal(err)
	}
	g.until(job, "killed", fmt.Sprintf("attempt %d", n+1), func() bool {
		return len(beginning.FindAllString(g.logs("killed"), -1)) > n
	})
	text := g.logs("killed")
	at := beginning.FindAllStringSubmatchIndex(text, -1)[n]
	from, _ := strconv.Atoi(text[at[4]:at[5]])
	done := lossLine.FindAllStringSubmatch(text[:at[0]], -1)
	last, _ := strconv.Atoi(done[len(done)-1][1])
	if lost = last - from; lost > 1 {
		g.t.Errorf("attempt %d began from step %d, and step %d was complete", n+1, from, last)
	}
	return lost
}

// trainers returns the training processes that save in a folder.
func (g *guest) trainers(folder string) (all []int) {
	g.t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		g.t.Fatal(err)
	}
	for _, path := range lines {
		line, _ := os.ReadFile(path)
		environ, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "environ"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if bytes.HasPrefix(line, []byte("/usr/bin/python3\x00examples/pytorch/saves.py\x00")) &&
			bytes.Contains(environ, []byte("CHECKPOINT_DIR="+folder+"\x00")) {
			all = append(all, pid)
		}
	}
	return all
}
