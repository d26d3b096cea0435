package e2e

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/server/audit"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the help texts by running each of their examples.

// goesOn matches the examples that run for ever. slowly matches those of them that start slowly. All others end by
// themselves.
var (
	goesOn = regexp.MustCompile(`synapse-cli (attach|port-forward|watch|web|wait .*--timeout|(events|logs) -f)\b`)
	slowly = regexp.MustCompile(`synapse-cli (up|simulate --synthetic)\b`)
)

// exampleTime returns when an example is ended. A wrong example has failed by then.
func exampleTime(line string) time.Duration {
	switch {
	case slowly.MatchString(line):
		return 8 * time.Second
	case goesOn.MatchString(line):
		return 1500 * time.Millisecond
	}
	return patience
}

// examplesOf collects the examples of a command and of its subcommands.
func (c *cluster) examplesOf(path ...string) (lines []string) {
	help := c.cli(append(slices.Clone(path), "--help")...).wants(c.t, 0, "Usage:", "").out
	_, rest, _ := strings.Cut(help, "Examples:\n")
	examples, _, _ := strings.Cut(rest, "\n\n")
	for line := range strings.Lines(examples) {
		if line, _, _ = strings.Cut(strings.TrimSpace(line), "  #"); line != "" {
			lines = append(lines, line)
		}
	}
	_, rest, _ = strings.Cut(help, "Available Commands:\n")
	commands, _, _ := strings.Cut(rest, "\n\n")
	for line := range strings.Lines(commands) {
		if name := strings.Fields(line)[0]; name != "completion" && name != "help" {
			lines = append(lines, c.examplesOf(append(slices.Clone(path), name)...)...)
		}
	}
	return lines
}

// insideTasks matches the commands that need a job with running tasks.
var insideTasks = regexp.MustCompile(`synapse-cli (exec|cp|port-forward) `)

// working returns a job whose tasks run and have the files that the examples name.
func (c *cluster) working() string {
	id := c.submit(gang(4, 1, "mkdir checkpoints && : >checkpoints/last.pt && : >trace.json && exec sleep 60"))
	c.await(id, "running")
	for _, rank := range []string{":0", ":3"} {
		limit := pace.Until(20 * time.Second)
		for c.cli("exec", id+rank, "--", "test", "-e", "trace.json").code != 0 {
			if time.Now().After(limit) {
				c.t.Fatalf("rank %s of %s wrote no file", rank, id)
			}
		}
	}
	return id
}

// TestEveryExampleInHelp runs every example in --help unchanged, on a cluster with suitable nodes and jobs. A cluster
// of `up` that an example starts ends with the example.
func TestEveryExampleInHelp(t *testing.T) {
	c := newCluster(t)
	for _, id := range []string{"n1", "n2", "n3", "n4", "n5", "n6", "n7", "n17"} {
		c.node(id, "r1", "--labels", "pool=a")
	}
	home := t.TempDir()
	for name, text := range map[string]string{
		"job.yaml": "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: filed}\n" +
			"spec: {image: host, resources: {cpu: 1}, command: [\"true\"]}\n",
		"queues.yaml": "apiVersion: synapse/v1\nkind: Queues\ndefault: research\nqueues: [{name: research}, {name: nlp}]\n",
		"train.sh":    "#!/bin/sh\n", "evaluate.sh": "#!/bin/sh\n",
		"jobs.csv": "submit_s,duration_s,gpus\n0,60,8\n30,60,16\n",
		"sacct.txt": "JobID|Submit|Start|ElapsedRaw|Timelimit|AllocTRES|User\n" +
			"1|2026-10-01T08:00:00|2026-10-01T08:00:05|60|01:00:00|billing=8,cpu=8,gres/gpu=8,node=1|ann\n",
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c.deployable(home)
	for dir, log := range map[string]string{"data": "scheduler.log", "other": "other.log"} {
		kept := ""
		account, err := audit.Open(filepath.Join(home, dir, "audit"), time.Now, func(format string, args ...any) {
			kept += fmt.Sprintf(format+"\n", args...)
		})
		if err == nil {
			_, err = account.Add(audit.Line{What: "look", Outcome: audit.OK})
		}
		if err = errors.Join(err, account.Close()); err == nil {
			err = os.WriteFile(filepath.Join(home, log), []byte(kept), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	c.example("synapse-cli init keys", home).wants(t, 0, "", "") // certify needs it
	lines := c.examplesOf()
	if len(lines) < 40 {
		t.Fatalf("%d examples were found: %q", len(lines), lines)
	}
	ids := regexp.MustCompile(`\bJOB\b`)
	for _, line := range lines {
		if ofTokens.MatchString(line) {
			continue // TestExamplesOfTokens runs it
		}
		told := ids.ReplaceAllStringFunc(line,
			func(string) string {
				if insideTasks.MatchString(line) {
					return c.working()
				}
				return c.order("exec sleep 30", "-n", "4", "-l", "team=nlp")
			})
		if strings.Contains(told, " up ") && !strings.Contains(told, "--clean") {
			told += " --listen 127.0.0.1:0"
		}
		if told == "synapse-cli init keys" {
			os.RemoveAll(filepath.Join(home, "keys")) // existing keys are never overwritten
		}
		a := c.example(told, home)
		switch {
		case a.code == 0, a.code == -1: // it ran until it was ended
		case strings.Contains(line, "--previous") && a.code == 3: // there is only one attempt
		case strings.Contains(line, " checkpoint ") && strings.Contains(a.err, "saves no checkpoint on request"):
		case strings.Contains(line, "image pull") && strings.Contains(a.err, "runs plain processes"):
		case strings.Contains(line, "remove") && strings.Contains(a.err, "is alive"):
		default:
			t.Errorf("$ %s\nended with %d: %s%s", told, a.code, a.out, a.err)
		}
	}
}

// deployable provides an ssh that acts as a node without settings for its agent, and the other inputs of `deploy`.
func (c *cluster) deployable(home string) {
	c.t.Helper()
	for name, text := range map[string]string{
		"synapse_1.4.0_amd64.deb": "", "hosts.yaml": "settings: {join: \"" + c.address + "\"}\nnodes: {n2: }\n",
		"ssh": `#!/bin/sh
if tar -tf - | grep -qx node.yaml; then
	echo "version $(synapse-node --version | cut -d' ' -f2)"
else
	printf '%s\n' "arch x86_64" "packages deb" "version 1.4.0" systemd active enabled keyed settings
fi
`,
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o755); err != nil {
			c.t.Fatal(err)
		}
	}
}

// example runs a line in a shell, and ends it if it does not end by itself.
func (c *cluster) example(line, home string) result {
	cmd := c.command("/bin/sh", "-c", line)
	cmd.Dir = home
	cmd.Env = append(cmd.Env, "PATH="+home+":"+bin+":"+os.Getenv("PATH"), "HOME="+home, "XDG_DATA_HOME="+home,
		"XDG_STATE_HOME="+home)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	after := exampleTime(line)
	var timers []*time.Timer
	a := ask(c.t, cmd, func(pid int) {
		send := func(in time.Duration, s syscall.Signal) {
			timers = append(timers, time.AfterFunc(in, func() { _ = syscall.Kill(-pid, s) }))
		}
		send(after, syscall.SIGINT)
		send(after+4*time.Second, syscall.SIGTERM)
		send(after+25*time.Second, syscall.SIGKILL)
	})
	for _, timer := range timers {
		timer.Stop()
	}
	if a.code == 130 {
		a.code = -1
	}
	return a
}
