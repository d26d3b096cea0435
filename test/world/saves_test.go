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

var preemptions = flag.Int("preemptions", 3, "how often TestPreemptedTraining preempts the gang; 20 for its figures")

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
	g := &guest{t: t, here: here, bin: bin, config: up(t, bin, folder, "--nodes", "2", "--gpus", "2")}
	var stop context.CancelFunc
	g.ctx, stop = context.WithTimeout(t.Context(), 25*time.Minute)
	defer stop()
	g.copyExample()
	if err := os.WriteFile(filepath.Join(here, "queues.yaml"), []byte(guestQueues), 0o600); err != nil {
		t.Fatal(err)
	}
	g.cli("apply", "-f", "queues.yaml")
	broken := g.train("broken", 1_000_000, "0.05")
	owner := strings.TrimSpace(g.cli(strings.Fields("submit --queue owner --priority 10 -N 2 --gpu 2 --cpu 0.1 " +
		"--mem 64Mi --hold --grace 1s --image host -q -- sleep 1000")...))
	saved := "0"
	for n := range *preemptions {
		g.resumes(broken, n+1, saved)
		saved = g.preempt(owner, n+1)
	}
	g.resumes(broken, *preemptions+1, saved)
	g.cli("cancel", broken)
	g.until(broken, "broken", "end of the job", func() bool { return g.phase(broken) == "cancelled" })
	got := g.losses("broken")
	steps := len(got)
	// The unbroken run comes last: after it, the scheduler would expect the gang to end soon, and would not preempt it.
	unbroken := g.train("unbroken", steps, "0")
	g.until(unbroken, "unbroken", "job succeeded", func() bool { return g.phase(unbroken) == "succeeded" })
	want := g.losses("unbroken")
	for step := 1; step <= steps; step++ {
		if want[step] == "" || got[step] != want[step] {
			t.Fatalf("the loss of step %d is %q, and without preemptions %q", step, got[step], want[step])
		}
	}
	t.Logf("%d steps have the same losses with %d preemptions as without", steps, *preemptions)
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
	beginning = regexp.MustCompile(`attempt (\d+): 4 members, from step (\d+)`)
	lossLine  = regexp.MustCompile(`step (\d+) loss (0x[0-9a-f.]+p[-+]\d+)`)
)

// guest runs commands against a cluster.
type guest struct {
	t                 *testing.T
	ctx               context.Context
	here, bin, config string
}

// copyExample copies the examples, with pairs of old and new text in examples/saves.yaml. The output of all attempts
// goes to one file, because the nodes keep only that of the last ones. The training writes to the file itself: torchrun
// loses the last lines of a process that it stops.
func (g *guest) copyExample(changes ...string) {
	g.t.Helper()
	if err := os.CopyFS(filepath.Join(g.here, "examples"), os.DirFS("../../examples")); err != nil {
		g.t.Fatal(err)
	}
	file := filepath.Join(g.here, "examples", "saves.yaml")
	text, err := os.ReadFile(file)
	if err != nil {
		g.t.Fatal(err)
	}
	const command = "[torchrun, -r, \"1\", -t, \"1\", examples/pytorch/saves.py]"
	changes = append(changes, command, "[torchrun, -r, \"1\", -t, \"1\", --no_python, sh, -c, "+
		"'exec /usr/bin/python3 examples/pytorch/saves.py >> $CHECKPOINT_DIR/log.$RANK']")
	for i := 0; i < len(changes); i += 2 {
		if strings.Count(string(text), changes[i]) != 1 {
			g.t.Fatalf("the example does not have %s once:\n%s", changes[i], text)
		}
	}
	changed := strings.NewReplacer(changes...).Replace(string(text))
	if err := os.WriteFile(file, []byte(changed), 0o644); err != nil {
		g.t.Fatal(err)
	}
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
func (g *guest) train(name string, steps int, pause string) string {
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
	env := fmt.Sprintf(`env: {CHECKPOINT_DIR: %q, STEPS: "%d", PAUSE: %q, `, folder, steps, pause)
	own := strings.Replace(string(text), "env: {", env, 1)
	if err := os.WriteFile(filepath.Join(g.here, name+".yaml"), []byte(own), 0o600); err != nil {
		g.t.Fatal(err)
	}
	return strings.TrimSpace(g.cli("submit", name+".yaml", "-q"))
}

// resumes waits until an attempt of the training has done a few steps, and checks the step from which it began.
func (g *guest) resumes(job string, attempt int, saved string) {
	g.t.Helper()
	g.until(job, "broken", fmt.Sprintf("attempt %d", attempt), func() bool {
		return len(beginning.FindAllString(g.logs("broken"), -1)) >= attempt
	})
	m := beginning.FindAllStringSubmatch(g.logs("broken"), -1)[attempt-1]
	if m[1] != fmt.Sprint(attempt) || m[2] != saved {
		g.t.Fatalf("attempt %d began as %q, and the gang had acknowledged step %s", attempt, m[0], saved)
	}
	begun := len(g.losses("broken"))
	g.until(job, "broken", "more steps", func() bool { return len(g.losses("broken")) >= begun+3 })
}

// preempt releases the job of the owner until it has preempted the training, and returns the saved step. It is one job
// that is requeued, because the scheduler learns from jobs that end: after some short ones, it would expect the
// training to end soon, and would not preempt it.
func (g *guest) preempt(owner string, n int) string {
	g.t.Helper()
	g.cli("release", owner)
	g.until(owner, "broken", "preemption", func() bool { return g.phase(owner) == "running" })
	g.cli("requeue", owner, "--hold")
	wrote := savedStep.FindAllStringSubmatch(g.logs("broken"), -1)
	if len(wrote) != n {
		g.t.Fatalf("the gang saved %d times, not %d:\n%s", len(wrote), n, g.logs("broken"))
	}
	g.t.Logf("preemption %d: saved step %s", n, wrote[n-1][1])
	return wrote[n-1][1]
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
	limit := time.Now().Add(3 * time.Minute)
	for n := 1; !holds(); n++ {
		time.Sleep(300 * time.Millisecond)
		if time.Now().After(limit) || n%20 == 0 && g.phase(job) == "failed" {
			g.t.Fatalf("no %s:\n%s\n%s", what, g.cli("describe", "job", job), g.logs(name))
		}
	}
}
