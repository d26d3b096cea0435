package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the commands as shipped, against a real scheduler and real nodes.

const (
	// prompt is the time within which a command should answer, including the start of its process.
	prompt = 200 * time.Millisecond
	// slow is a time that no load of the host excuses.
	slow = 2 * time.Second
)

// result holds the output of a command, and how it ended.
type result struct {
	args     []string
	code     int
	out, err string
	took     time.Duration
}

// command returns one run of the command line with the cluster's settings.
func (c *cluster) command(name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.Env = append(os.Environ(), "SYNAPSE_SERVER="+c.address, "SYNAPSE_TLS="+c.tls, "SYNAPSE_CONFIG=", "NO_COLOR=",
		"TERM=xterm")
	return cmd
}

// cli runs the command line to its end.
func (c *cluster) cli(args ...string) result {
	c.t.Helper()
	return ask(c.t, c.command(filepath.Join(bin, "synapse-cli"), args...))
}

// ask runs a program to its end. It calls begun with the process ID, so that a caller can end the program.
func ask(t *testing.T, cmd *exec.Cmd, begun ...func(pid int)) result {
	t.Helper()
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	began := time.Now()
	err := cmd.Start()
	if err == nil {
		for _, tell := range begun {
			tell(cmd.Process.Pid)
		}
		err = cmd.Wait()
	}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return result{cmd.Args[1:], cmd.ProcessState.ExitCode(), out.String(), errs.String(), time.Since(began)}
}

// wants checks the code, standard output, and standard error.
func (a result) wants(t *testing.T, code int, out, errs string) result {
	t.Helper()
	if a.code != code || !strings.Contains(a.out, out) || !strings.Contains(a.err, errs) ||
		strings.Contains(a.err, "goroutine ") {
		t.Errorf("%v ended with %d, want %d\nstdout %q, want %q\nstderr %q, want %q",
			a.args, a.code, code, a.out, out, a.err, errs)
	}
	return a
}

// shell returns a submit of one task with a line of shell, which prints only the ID.
func shell(line string, more ...string) []string {
	return slices.Concat([]string{"submit", "-q", "--cpu", "1", "--image", "host"}, more,
		[]string{"--", "/bin/sh", "-c", line})
}

// order submits a line of shell and returns the job's ID.
func (c *cluster) order(line string, more ...string) string {
	c.t.Helper()
	return strings.TrimSpace(c.cli(shell(line, more...)...).wants(c.t, 0, "\n", "").out)
}

// TestCommandsAreQuick checks that every command answers quickly.
func TestCommandsAreQuick(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	const times = 5
	var ids []string
	var job string
	for _, step := range []struct {
		name string
		args func(i int) []string
		out  string
	}{
		{"submit", func(int) []string { return shell("echo said; exec sleep 600") }, "\n"},
		{"get", func(int) []string { return []string{"get", "jobs"} }, "running"},
		{"describe", func(i int) []string { return []string{"describe", "job", ids[i]} }, "Phase:"},
		{"logs", func(i int) []string { return []string{"logs", ids[i]} }, "said\n"},
		{"explain", func(i int) []string { return []string{"explain", ids[i]} }, "\n"},
		{"cancel", func(i int) []string { return []string{"cancel", ids[i]} }, "is being cancelled\n"},
		{"wait", func(int) []string { return []string{"wait", job} }, ""},
		{"logs -f", func(int) []string { return []string{"logs", "-f", job} }, "done\n"},
		{"drain", func(int) []string { return []string{"drain", "n2", "--reason", "fan"} }, "Node n2 draining\n"},
	} {
		var took []time.Duration
		for i := range times {
			a := c.cli(step.args(i)...).wants(t, 0, step.out, "")
			took = append(took, a.took)
			if step.name == "submit" {
				ids = append(ids, strings.TrimSpace(a.out))
				c.await(ids[i], "running")
				c.said(ids[i], "said\n")
			}
		}
		if step.name == "submit" {
			job = c.order("echo done")
			c.await(job, "succeeded")
		}
		slices.Sort(took)
		median := took[times/2]
		t.Logf("%-8s %4d ms (median of %d)", step.name, median.Milliseconds(), times)
		if median > slow {
			t.Errorf("%s answers after %s, want %s", step.name, median, prompt)
		}
	}
	c.cli("uncordon", "n2").wants(t, 0, "Node n2 schedulable again\n", "")
}

// said waits until a job's output can be read.
func (c *cluster) said(id, words string) {
	c.t.Helper()
	for limit := pace.Until(5 * time.Second); !strings.Contains(c.logs(id), words); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(limit) {
			c.t.Fatalf("job %s did not write %q", id, words)
		}
	}
}

// TestSubmitWaits checks that the command ends as the job did.
func TestSubmitWaits(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	for line, code := range map[string]int{"exit 0": 0, "exit 5": 5, "kill -9 $$": 137} {
		c.cli(shell(line, "--wait")...).wants(t, code, "\n", "job j")
	}
	c.cli(shell("echo shown; echo told >&2; exit 3", "--attach")...).wants(t, 3, "shown\n", "told\n")
	c.cli("submit", "-q", "--cpu", "1", "--image", "host", "--wait", "--", "/no\r\x1b[2Jprogram").
		wants(t, 127, "\n", "/no??[2Jprogram")

	slept := c.order("exec sleep 600")
	c.cli("wait", slept, "--timeout", "300ms").wants(t, 6, "", "has not ended in time")
	waiting := c.command(filepath.Join(bin, "synapse-cli"), "wait", slept)
	ended := make(chan result, 1)
	go func() { ended <- ask(t, waiting) }()
	c.cli("cancel", slept, "--reason", "enough").wants(t, 0, "Job "+slept+" is being cancelled\n", "")
	(<-ended).wants(t, 1, "", "job "+slept+" cancelled: enough")
	limited := c.order("exec sleep 600", "--time-limit", "200ms")
	c.cli("wait", limited).wants(t, 6, "", "job "+limited+" timed-out")
}

// TestExitCodes checks the exit codes that scripts depend on.
func TestExitCodes(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n12", "r1")
	closed, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := closed.Addr().String()
	closed.Close()

	c.cli("get", "jobs", "-o", "paper").wants(t, 2, "", "paper")
	c.cli("submit", "--gpuz", "1").wants(t, 2, "", "unknown flag: --gpuz\nhint: ")
	c.cli("describe", "job", "jzz").wants(t, 3, "", "jzz")
	c.cli("drain", "m", "--reason", "x").wants(t, 3, "", `unknown node "m"`)
	c.cli("cordon", "n", "--reason", "x").wants(t, 4, "", "n1, n12")
	c.cli(shell("true", "--request-id", "once")...).wants(t, 0, "\n", "")
	c.cli(shell("false", "--request-id", "once")...).wants(t, 4, "", "request ID was already used for another job\nhint: ")
	c.cli("remove", "n1", "--gone").wants(t, 4, "", "n1 is alive\nhint: ")
	c.cli("submit", "--gpu", "800", "--image", "host", "--", "true").wants(t, 7, "", "--allow-infeasible")
	c.cli("submit", "--gpu", "800", "--image", "host", "--allow-infeasible", "--", "true").wants(t, 0, "submitted", "")
	for _, args := range [][]string{{"get", "jobs"}, {"wait", "j"}, shell("true")} {
		c.cli(append([]string{"--retry", "0", "--server", nobody}, args...)...).
			wants(t, 8, "", "cannot reach the scheduler at "+nobody+": connection refused\nhint: ")
	}
}

// TestSeedCommand checks that the program, under its first name, accepts its first flags and prints its first output.
func TestSeedCommand(t *testing.T) {
	c := newCluster(t)
	n := c.node("n1", "r1")
	synctl := filepath.Join(t.TempDir(), "synctl")
	if err := os.Symlink(filepath.Join(bin, "synapse-cli"), synctl); err != nil {
		t.Fatal(err)
	}
	id := func(a result, name string) string {
		t.Helper()
		lines := strings.Split(a.out, "\n")
		if a.code != 0 || a.err != "" || len(lines) != 3 || !strings.HasPrefix(lines[0], "Submitting Job "+name) ||
			!strings.HasSuffix(lines[0], "...") ||
			!strings.HasPrefix(lines[1], "Master Response: Job queued successfully (Job ID: ") ||
			!strings.HasSuffix(lines[1], ")") {
			t.Fatalf("%v ended with %d and printed %q, %q", a.args, a.code, a.out, a.err)
		}
		return strings.TrimSuffix(strings.TrimPrefix(lines[1], "Master Response: Job queued successfully (Job ID: "), ")")
	}
	first := id(ask(t, c.command(synctl, "--cpu=4", "--gpu=1", "--mem=128", "--image=host")), "job-")
	c.scheduler.says(t, "[GRPC] Job Submitted: "+first+" (CPU: 4, GPU: 1)")
	c.await(first, "succeeded")
	n.says(t, "STARTING CONTAINER: JobID="+first+", Image=host")
	if each := c.job(first).Attempt.Places[0].Grant.Amount; each.MilliCpu != 4000 || each.MilliGpu != 1000 ||
		each.MemoryBytes != 128<<20 {
		t.Errorf("unexpected arguments: %v", each)
	}
	file := filepath.Join(t.TempDir(), "job.yaml")
	text := "apiVersion: synapse/v1\nkind: Job\nmetadata: {name: filed}\nspec:\n  gang: {replicas: 2}\n" +
		"  resources: {gpu: 1}\n  image: host\n  command: [\"true\"]\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	second := id(ask(t, c.command(synctl, "submit", file)), "filed...")
	c.await(second, "succeeded")
	ask(t, c.command(synctl, "wait", second)).wants(t, 0, "", "job "+second+" succeeded\n")
}

// TestWhatProgramsRead checks that JSON parses, that names are plain, and that standard output contains nothing else.
func TestWhatProgramsRead(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	id := c.order("exit 4")
	c.await(id, "failed")
	type list struct {
		APIVersion, Kind string
		Items            []struct {
			Metadata struct{ ID string }
			Status   struct {
				Phase    string
				ExitCode *int
			}
		}
	}
	var jobs, nodes list
	for what, into := range map[string]*list{"jobs": &jobs, "nodes": &nodes} {
		a := c.cli("get", what, "-o", "json").wants(t, 0, "", "")
		if err := json.Unmarshal([]byte(a.out), into); err != nil {
			t.Fatalf("%v: %s", err, a.out)
		}
	}
	if jobs.APIVersion != "synapse/v1" || jobs.Kind != "JobList" || len(jobs.Items) != 1 ||
		jobs.Items[0].Metadata.ID != id ||
		jobs.Items[0].Status.Phase != "failed" || *jobs.Items[0].Status.ExitCode != 4 {
		t.Errorf("%+v", jobs)
	}
	if nodes.Kind != "NodeList" || len(nodes.Items) != 1 || nodes.Items[0].Metadata.ID != "n1" ||
		nodes.Items[0].Status.Phase != "up" {
		t.Errorf("%+v", nodes)
	}
	for _, args := range [][]string{
		{"get", "job", id, "-o", "json"}, {"get", "node", "n1", "-o", "json"},
		{"submit", "-o", "json", "--cpu", "1", "--image", "host", "--", "true"},
	} {
		if a := c.cli(args...); a.code != 0 || !json.Valid([]byte(a.out)) {
			t.Errorf("%v ended with %d and printed %q", args, a.code, a.out)
		}
	}
	c.cli("get", "jobs", "--phase", "failed", "-q").wants(t, 0, id+"\n", "")
	c.cli("get", "nodes", "--parsable", "--no-headers").wants(t, 0, "n1|up|", "")
}

// TestStreams checks that a watched list shows each change, that a log ends with its job, and that both accept a reader
// that stops early.
func TestStreams(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	watch := launch(t, "get -w", "synapse-cli", "--server", c.address, "get", "jobs", "-w", "--parsable", "--no-headers")
	events := launch(t, "events -f", "synapse-cli", "--server", c.address, "events", "-f", "-o", "json")
	told := filepath.Join(c.dir, "told") // lets it write its second line
	id := c.order("echo one; while ! test -e "+told+"; do sleep 0.02; done; echo two", "-n", "2")
	follow := launch(t, "logs -f", "synapse-cli", "--server", c.address, "logs", "-f", id)
	follow.says(t, "[0] one")
	follow.says(t, "[1] one")
	c.telling(watch, id+"|sh|running|")
	if err := os.WriteFile(told, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	follow.says(t, "[0] two")
	follow.says(t, "[1] two")
	select {
	case <-follow.ended:
	case <-time.After(pace.Of(5 * time.Second)):
		t.Error("logs -f did not end with its job")
	}
	c.telling(watch, id+"|sh|succeeded|")
	c.telling(events, `"job":"`+id+`","phase":"succeeded"`)

	// A reader that stops after one line, as head does.
	for _, args := range [][]string{{"get", "jobs", "-w"}, {"watch"}, {"logs", "-f", id}, {"get", "jobs", "-o", "json"}} {
		cmd := c.command(filepath.Join(bin, "synapse-cli"), args...)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		var errs bytes.Buffer
		cmd.Stderr = &errs
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill() })
		if _, err := out.Read(make([]byte, 1)); err != nil {
			t.Errorf("%v wrote nothing: %v", args, err)
		}
		out.Close()
		c.order("true") // its next write fails, because the reader is gone
		if err := cmd.Wait(); err != nil || errs.Len() > 0 {
			t.Errorf("%v ended with %v and printed %q", args, err, errs.String())
		}
	}
}

// telling waits until a process has printed these words in one line.
func (c *cluster) telling(p *process, words string) {
	c.t.Helper()
	for limit := pace.Until(10 * time.Second); !strings.Contains(p.said(), words); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(limit) {
			c.t.Fatalf("%s did not print %q:\n%s", p.name, words, p.said())
		}
	}
}

// TestColour checks that tables have colours on a terminal, unless NO_COLOR is set.
func TestColour(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	for setting, painted := range map[string]bool{"NO_COLOR=": true, "NO_COLOR=1": false, "TERM=dumb": false} {
		cmd := c.command(filepath.Join(bin, "synapse-cli"), "get", "nodes")
		cmd.Env = append(cmd.Env, setting)
		if said := onTerminal(t, cmd); !strings.Contains(said, "n1") || strings.Contains(said, "\x1b[") != painted {
			t.Errorf("%s: %q", setting, said)
		}
	}
	c.cli("get", "nodes").wants(t, 0, "n1    up     a/r1", "")
}

// onTerminal runs a command with a terminal of 120 columns as its standard output.
func onTerminal(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	return onWidth(t, cmd, 120)
}

// onWidth runs a command with a terminal of this width as its standard output.
func onWidth(t *testing.T, cmd *exec.Cmd, columns uint16) string {
	t.Helper()
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("this host cannot create terminals: %v", err)
	}
	defer master.Close()
	number, err := unix.IoctlGetInt(int(master.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(master.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	terminal, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := unix.IoctlSetWinsize(int(terminal.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: columns}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdout = terminal
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	said, err := io.ReadAll(master) // ends with EIO when the other end is closed
	if err != nil && !errors.Is(err, syscall.EIO) {
		t.Fatal(err)
	}
	return string(said)
}
