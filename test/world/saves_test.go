//go:build world

package world

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able"
)

// This file tests that a PyTorch gang that saves on request loses no work to preemptions.

var preemptions = flag.Int("preemptions", 20, "how often TestPreemptedTraining preempts the gang")

const guestQueues = "apiVersion: synapse/v1\nkind: Queues\ndefault: guest\nqueues:\n" +
	"- {name: guest, preemption: {minRuntime: 0s}}\n" +
	"- {name: owner, quota: {gpu: 4}, preemption: {reclaim: true}}\n"

// TestPreemptedTraining trains examples/saves.yaml on two nodes with two processes each, once without a break and once
// with preemptions. Each attempt must begin with the acknowledged step. Each step must have the same loss, bit for bit.
func TestPreemptedTraining(t *testing.T) {
	able.Need(t, able.Program("torchrun"))
	if text, err := exec.Command("/usr/bin/python3", "-c", "import torch").CombinedOutput(); err != nil {
		t.Skipf("this host has no PyTorch for /usr/bin/python3 (Debian: python3-torch): %s", text)
	}
	bin, folder := made(t)
	here := room(t)
	if err := os.CopyFS(filepath.Join(here, "examples"), os.DirFS("../../examples")); err != nil {
		t.Fatal(err)
	}
	g := &guest{t: t, here: here, bin: bin, config: up(t, bin, folder, "--nodes", "2", "--gpus", "2")}
	var stop context.CancelFunc
	g.ctx, stop = context.WithTimeout(t.Context(), 25*time.Minute)
	defer stop()
	// The output of all attempts goes to one file, because the nodes keep only that of the last ones.
	file := filepath.Join(here, "examples", "saves.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	const command = "[torchrun, -r, \"1\", -t, \"1\", examples/pytorch/saves.py]"
	if strings.Count(string(text), command) != 1 {
		t.Fatalf("the example has no command %s:\n%s", command, text)
	}
	logged := strings.Replace(string(text), command,
		"[sh, -c, 'torchrun -r 1 -t 1 examples/pytorch/saves.py 2>&1 | tee -a $CHECKPOINT_DIR/log.$SYNAPSE_RANK']", 1)
	if err := os.WriteFile(file, []byte(logged), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(here, "queues.yaml"), []byte(guestQueues), 0o600); err != nil {
		t.Fatal(err)
	}
	g.cli("apply", "-f", "queues.yaml")
	steps := 80 * *preemptions // the scheduler searches for victims at most every 10 s
	broken := g.train("broken", steps)
	saved := ""
	for n := range *preemptions {
		from := fmt.Sprintf("attempt %d: 4 members, from step %s\n", n+1, max(saved, "0"))
		g.until(broken, "broken", from, func() bool { return strings.Contains(g.logs("broken"), from) })
		begun := len(g.losses("broken"))
		g.until(broken, "broken", "more steps", func() bool { return len(g.losses("broken")) >= begun+3 })
		g.cli("submit", "--queue", "owner", "-N", "2", "--gpu", "2", "--cpu", "0.1", "--mem", "64Mi", "--wait", "--image", "host",
			"--", "true")
		found := savedStep.FindAllStringSubmatch(g.logs("broken"), -1)
		if len(found) != n+1 {
			t.Fatalf("the gang saved %d times, not %d:\n%s", len(found), n+1, g.logs("broken"))
		}
		saved = found[n][1]
		t.Logf("preemption %d: saved step %s", n+1, saved)
	}
	g.until(broken, "broken", "job succeeded", func() bool { return g.phase(broken) == "succeeded" })
	// The unbroken run comes last: after it, the scheduler would expect the gang to end soon, and would not preempt it.
	unbroken := g.train("unbroken", steps)
	g.until(unbroken, "unbroken", "job succeeded", func() bool { return g.phase(unbroken) == "succeeded" })
	want := g.losses("unbroken")
	got := g.losses("broken")
	for step := 1; step <= steps; step++ {
		if want[step] == "" || got[step] != want[step] {
			t.Fatalf("the loss of step %d is %q, and without preemptions %q", step, got[step], want[step])
		}
	}
	// The scheduler must have the same steps on disk, one for each attempt that was preempted.
	wrote := savedStep.FindAllStringSubmatch(g.logs("broken"), -1)
	acked := ackedStep.FindAllStringSubmatch(g.cli("history", "-o", "json"), -1)
	for n := range wrote {
		if len(wrote) != len(acked) || wrote[n][1] != acked[n][1] {
			t.Fatalf("the gang saved %q, and the history has %q", wrote, acked)
		}
	}
	if text := g.cli("describe", "job", broken); !strings.Contains(text, fmt.Sprintf("%d preempted", *preemptions)) {
		t.Errorf("the gang was not preempted %d times:\n%s", *preemptions, text)
	}
}

var (
	savedStep = regexp.MustCompile(`saved step (\d+)`)
	ackedStep = regexp.MustCompile(`"savedCheckpoint":\s*\{\s*"step":\s*(\d+)`)
	lossLine  = regexp.MustCompile(`step (\d+) loss (\S+)`)
)

// guest runs commands against a cluster.
type guest struct {
	t                 *testing.T
	ctx               context.Context
	here, bin, config string
}

func (g *guest) cli(words ...string) string {
	g.t.Helper()
	c := exec.CommandContext(g.ctx, filepath.Join(g.bin, "synapse-cli"), words...)
	c.Dir, c.Env = g.here, append(os.Environ(), "SYNAPSE_CONFIG="+g.config)
	out, err := c.Output()
	if err != nil {
		failed, _ := err.(*exec.ExitError)
		g.t.Fatalf("synapse-cli %v: %v\n%s%s", words, err, out, failed.Stderr)
	}
	return string(out)
}

// train submits the example with a checkpoint folder of its own, and returns the job.
func (g *guest) train(name string, steps int) string {
	g.t.Helper()
	folder := filepath.Join(g.here, name)
	if err := os.Mkdir(folder, 0o700); err != nil {
		g.t.Fatal(err)
	}
	if err := os.Chmod(folder, 0o1777); err != nil {
		g.t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(g.here, "examples", "saves.yaml"))
	if err != nil {
		g.t.Fatal(err)
	}
	env := fmt.Sprintf(`env: {CHECKPOINT_DIR: %q, STEPS: "%d", PAUSE: "0.05", `, folder, steps)
	own := strings.Replace(string(text), "env: {", env, 1)
	if err := os.WriteFile(filepath.Join(g.here, name+".yaml"), []byte(own), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(g.cli("submit", name+".yaml", "-q"))
}

func (g *guest) phase(job string) string {
	return strings.TrimSpace(g.cli("get", "job", job, "-o", "jsonpath={.status.phase}"))
}

// logs returns the output of rank 0 in all attempts.
func (g *guest) logs(name string) string {
	text, err := os.ReadFile(filepath.Join(g.here, name, "log.0"))
	if err != nil && !os.IsNotExist(err) {
		g.t.Fatal(err)
	}
	return string(text)
}

// losses returns the loss of each step. A step that runs twice must have the same loss.
func (g *guest) losses(name string) map[int]string {
	all := map[int]string{}
	for _, m := range lossLine.FindAllStringSubmatch(g.logs(name), -1) {
		step := 0
		_, _ = fmt.Sscan(m[1], &step)
		if before := all[step]; before != "" && before != m[2] {
			g.t.Fatalf("step %d has the losses %s and %s", step, before, m[2])
		}
		all[step] = m[2]
	}
	return all
}

func (g *guest) until(job, name, what string, holds func() bool) {
	g.t.Helper()
	for limit := time.Now().Add(3 * time.Minute); !holds(); time.Sleep(300 * time.Millisecond) {
		if time.Now().After(limit) {
			g.t.Fatalf("no %s:\n%s\n%s", what, g.cli("describe", "job", job), g.logs(name))
		}
	}
}
