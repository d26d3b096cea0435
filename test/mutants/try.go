package main

// This file tries one mutant: it builds the mutant aside and runs it until a check notices it.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// verdict is the result of one trial.
type verdict struct {
	caught   bool
	check    string // the check that was tried, if not seeds
	seed     int    // the last seed that ran
	evidence string // the invariant that broke, or how the program died
	said     string // the last output of a failed check
	late     bool   // the time ran out before all seeds were tried
	cpu      time.Duration
	err      error // the trial itself failed, and its result is unknown
}

// String returns the text after the mutant's name.
func (v verdict) String() string {
	switch {
	case v.caught && v.check != "":
		return fmt.Sprintf("caught by %s (%s)", v.check, v.evidence)
	case v.caught:
		return fmt.Sprintf("caught by seed=%d (%s)", v.seed, v.evidence)
	case v.check != "":
		return "SURVIVED " + v.check
	case v.late:
		return fmt.Sprintf("SURVIVED after %d seeds (its time was up)", v.seed)
	}
	return fmt.Sprintf("SURVIVED after %d seeds", v.seed)
}

// twiceSeeds is the number of first seeds that run twice, to compare the runs. A random map order is visible only by
// comparison.
const twiceSeeds = 5

// check is one Go test, as the go command names it.
type check struct {
	title string // shown to developers
	pkg   string
	run   string         // the tests, in the form of -test.run
	told  *regexp.Regexp // matches the verbose output of a test that ran, was not skipped, and noticed nothing
}

// checkOf returns the test that must catch a mutant without seeds.
func (t trial) checkOf(m patch.Mutant) check {
	title, pkg, run := "test "+m.Package+" "+m.Test, "./"+m.Package, "^"+regexp.QuoteMeta(m.Test)+"$"
	told := regexp.QuoteMeta(m.Test)
	if m.Scenario != "" {
		title, pkg, run = "scenario "+m.Scenario, t.tests, "Scenario.*/^"+regexp.QuoteMeta(m.Scenario)+"$"
		told = `\S*/` + regexp.QuoteMeta(m.Scenario)
	}
	return check{title, pkg, run, regexp.MustCompile(`--- PASS: ` + told + ` \(`)}
}

// try plants one mutant and runs what must catch it.
func (t trial) try(mutant patch.Mutant, folder string) verdict {
	overlay, err := t.plant(mutant, folder)
	if err != nil {
		return verdict{err: err}
	}
	if !mutant.BySeeds() {
		return t.tryCheck(mutant.Name, t.checkOf(mutant), overlay, folder)
	}
	return t.trySeeds(mutant.Name, overlay, folder, 1, t.seeds)
}

// plant writes the changed file aside, and an overlay file that makes the go command read it instead of the original.
func (t trial) plant(mutant patch.Mutant, folder string) (overlay string, err error) {
	harmed, err := mutant.Apply(t.root)
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(filepath.Join(t.root, filepath.FromSlash(mutant.File)))
	if err != nil {
		return "", err
	}
	copied := filepath.Join(folder, mutant.Name+".go")
	if err := os.WriteFile(copied, []byte(harmed), 0o600); err != nil {
		return "", err
	}
	note, err := json.Marshal(map[string]map[string]string{"Replace": {original: copied}})
	if err != nil {
		return "", err
	}
	overlay = filepath.Join(folder, mutant.Name+".json")
	return overlay, os.WriteFile(overlay, note, 0o600)
}

// trySeeds builds the simulator and runs one seed after another until one fails.
func (t trial) trySeeds(name, overlay, folder string, first, last int) (v verdict) {
	deadline, cancel := context.WithTimeout(context.Background(), t.limit)
	defer cancel()
	var used meter
	defer func() { v.cpu = used.cpu }()
	program := filepath.Join(folder, name+".sim")
	defer os.Remove(program) // A simulator is 10 MB, and there are many mutants.
	if err := t.build(deadline, &used, overlay, "build", "-o", program, t.program); err != nil {
		return verdict{err: err}
	}
	for seed := first; seed <= last; seed++ {
		evidence, err := t.playSeed(deadline, &used, folder, program, seed)
		switch {
		case deadline.Err() != nil:
			return verdict{seed: seed, late: true}
		case err != nil:
			return verdict{err: err}
		case evidence != "":
			return verdict{caught: true, seed: seed, evidence: evidence}
		}
	}
	return verdict{seed: last}
}

// playSeed runs one seed. It runs the first few seeds twice.
func (t trial) playSeed(ctx context.Context, used *meter, folder, program string,
	seed int) (evidence string, err error) {
	arguments := []string{"-world", t.world, "-seed", strconv.Itoa(seed)}
	first, evidence, err := t.play(ctx, used, folder, program, arguments...)
	if seed > twiceSeeds || evidence != "" || err != nil {
		return evidence, err
	}
	second, evidence, err := t.play(ctx, used, folder, program, arguments...)
	if err == nil && second != first {
		return "S16 same-trace", nil
	}
	return evidence, err
}

// tryCheck builds a package's tests and runs the one that must notice. A missing test would look like a passed one, so
// the verbose output must name the test.
func (t trial) tryCheck(name string, c check, overlay, folder string) (v verdict) {
	deadline, cancel := context.WithTimeout(context.Background(), t.limit)
	defer cancel()
	var used meter
	defer func() { v.cpu = used.cpu }()
	program := filepath.Join(folder, name+".test")
	defer os.Remove(program)
	if err := t.build(deadline, &used, overlay, "test",
		append(slices.Clone(quick), "-c", "-o", program, c.pkg)...); err != nil {
		return verdict{err: err}
	}
	return t.runCheck(deadline, &used, program, overlay, c)
}

// runCheck runs one check of a test program. Programs that the check builds also contain the mutant.
func (t trial) runCheck(ctx context.Context, used *meter, program, overlay string, c check) verdict {
	run, cancel := context.WithTimeout(ctx, t.seedLimit)
	defer cancel()
	command := exec.CommandContext(run, "sh", "-c", bounded, program, "-test.v", "-test.run", c.run)
	command.Dir = filepath.Join(t.root, c.pkg)
	command.WaitDelay = time.Second
	if overlay != "" {
		command.Env = append(os.Environ(), "GOFLAGS="+os.Getenv("GOFLAGS")+" -overlay="+overlay)
	}
	output, err := used.run(command)
	var exit *exec.ExitError
	switch {
	case err != nil && run.Err() != nil:
		return verdict{caught: true, check: c.title, evidence: "the run did not end in time"}
	case err != nil && !errors.As(err, &exit):
		return verdict{err: err}
	case err != nil:
		return verdict{caught: true, check: c.title, evidence: "exit " + strconv.Itoa(exit.ExitCode()), said: lastOf(output)}
	case !c.told.Match(output):
		return verdict{err: fmt.Errorf("%s does not exist or was skipped", c.title)}
	}
	return verdict{check: c.title}
}

// quick builds this module without optimisation, because a check that runs once does not repay it. One package is
// exempt, because the functions of its forked process have little stack. The last pattern that matches a package
// counts.
var quick = []string{"-gcflags=./...=-N -l -dwarf=false", "-gcflags=./runtime/carapace/fork=-dwarf=false"}

// build runs the go command over the tree with the mutant. A mutant that does not compile proves nothing.
func (t trial) build(ctx context.Context, used *meter, overlay, verb string, arguments ...string) error {
	// Linking the data for debuggers takes a third of a build.
	arguments = append([]string{verb, "-ldflags=-s -w"}, arguments...)
	if overlay != "" {
		arguments = slices.Insert(arguments, 1, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = t.root
	if output, err := used.run(command); err != nil {
		return fmt.Errorf("does not build: %w\n%s", err, output)
	}
	return nil
}

// lastOf returns the end of a program's output.
func lastOf(output []byte) string {
	const most = 4000
	return string(output[max(0, len(output)-most):])
}

// bounded starts a program with a memory limit of 8 GiB (in KiB), if the shell supports it. A bug that accumulates
// messages must kill only its own process. The limit counts address space, of which 200 simultaneously started
// containers reserve more than half.
const bounded = `ulimit -v 8388608 2>/dev/null; exec "$0" "$@"`

// meter sums the CPU time of a trial's processes, because wall time says little on a shared host.
type meter struct{ cpu time.Duration }

// run waits for a process and returns its output.
func (m *meter) run(command *exec.Cmd) ([]byte, error) {
	output, err := command.CombinedOutput()
	if s := command.ProcessState; s != nil {
		m.cpu += s.UserTime() + s.SystemTime()
	}
	return output, err
}

// play runs the program once. It returns the output and the evidence of the mutant, if any.
func (t trial) play(ctx context.Context, used *meter, folder, program string,
	arguments ...string) (printed, evidence string, err error) {
	run, cancel := context.WithTimeout(ctx, t.seedLimit)
	defer cancel()
	command := exec.CommandContext(run, "sh", append([]string{"-c", bounded, program}, arguments...)...)
	command.Dir = folder
	command.WaitDelay = time.Second
	output, err := used.run(command)
	printed = string(output)
	var exit *exec.ExitError
	switch {
	case err != nil && run.Err() != nil:
		return printed, "the run did not end in time", nil
	case err != nil && !errors.As(err, &exit):
		return printed, "", err
	case err != nil:
		return printed, readEvidence(printed, fmt.Sprintf("exit %d", exit.ExitCode())), nil
	case !strings.Contains(printed, "violations="):
		return printed, "", fmt.Errorf("the simulator printed no `violations=`:\n%s", output)
	case !clean.MatchString(printed):
		return printed, readEvidence(printed, "the simulator printed violations but exited with 0"), nil
	}
	return printed, "", nil
}

// clean matches the result of a seed without a finding.
var clean = regexp.MustCompile(`\bviolations=0\b`)

// readEvidence returns the name of the first broken invariant ("violation: S3 barrier: …"), or the beginning of a
// panic, or otherwise.
func readEvidence(output, otherwise string) string {
	died := ""
	for _, line := range strings.Split(output, "\n") {
		if violation, ok := strings.CutPrefix(strings.TrimSpace(line), "violation: "); ok {
			name, _, _ := strings.Cut(violation, ":")
			return name
		}
		if died == "" && (strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "fatal error: ")) {
			died = line
		}
	}
	if died != "" {
		return died[:min(len(died), 100)]
	}
	return otherwise
}
