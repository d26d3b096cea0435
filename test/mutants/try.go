package main

// This file owns the trial of one mutant: build it aside, run it until something notices.

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

// verdict is what one trial found.
type verdict struct {
	caught   bool
	check    string // what was tried, if not seeds
	seed     int    // the last seed that ran
	evidence string // the invariant that broke, or how the program died
	said     string // the end of what a check printed that failed
	late     bool   // the time was up before the seeds were
	cpu      time.Duration
	err      error // the trial itself failed; nothing is known
}

// String is the line that a reader sees behind the mutant's name.
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

// twiceSeeds is how many of the first seeds are played a second time, to see whether the run is the same: an order that
// is left to a map shows in no single run.
const twiceSeeds = 5

// check is one test in Go, as the go command names it.
type check struct {
	title string // for people
	pkg   string
	run   string         // which tests, as -test.run wants it
	told  *regexp.Regexp // what its verbose output contains where it was there, was not skipped, and noticed nothing
}

// checkOf is the test that must catch a mutant which seeds need not.
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

// plant writes the harmed file aside, and the note that tells the go command to read it in the other's place.
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

// trySeeds builds the simulator and plays seed after seed until one of them fails.
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

// playSeed plays one seed; one of the first is played twice.
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

// tryCheck builds a package's tests and runs the one that must notice. A test that is not there would pass for one that
// ran, so the verbose output has to name it.
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

// runCheck runs one check of a test program. Programs that it builds have the mutant too.
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
		return verdict{caught: true, check: c.title, evidence: "it never came to an end"}
	case err != nil && !errors.As(err, &exit):
		return verdict{err: err}
	case err != nil:
		return verdict{caught: true, check: c.title, evidence: "exit " + strconv.Itoa(exit.ExitCode()), said: lastOf(output)}
	case !c.told.Match(output):
		return verdict{err: fmt.Errorf("there is no %s, or it was skipped", c.title)}
	}
	return verdict{check: c.title}
}

// quick builds our own packages as they are: what a check runs once is not worth making fast. But the functions of a
// forked process have little stack, which as they are they do not fit in; the last pattern that matches a package
// counts.
var quick = []string{"-gcflags=./...=-N -l -dwarf=false", "-gcflags=./runtime/carapace/fork=-dwarf=false"}

// build runs the go command over the tree, with the mutant in it. A mutant that does not compile proves nothing.
func (t trial) build(ctx context.Context, used *meter, overlay, verb string, arguments ...string) error {
	// To link what a debugger wants takes a third of a build.
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

// lastOf is the end of what a program printed.
func lastOf(output []byte) string {
	const most = 4000
	return string(output[max(0, len(output)-most):])
}

// bounded starts a program with a ceiling on its memory (8 GiB, in KiB), where the shell has one to give: a bug that
// piles up messages without end shall die alone. It is one of addresses: 200 containers that start at once reserve more
// than half of it.
const bounded = `ulimit -v 8388608 2>/dev/null; exec "$0" "$@"`

// meter sums up what the processes of a trial cost. On a machine that others use, the clock says little.
type meter struct{ cpu time.Duration }

// run waits for a process and answers all that it printed.
func (m *meter) run(command *exec.Cmd) ([]byte, error) {
	output, err := command.CombinedOutput()
	if s := command.ProcessState; s != nil {
		m.cpu += s.UserTime() + s.SystemTime()
	}
	return output, err
}

// play runs the program once and answers what it printed, and what gave the mutant away, or nothing.
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
		return printed, "it never came to an end", nil
	case err != nil && !errors.As(err, &exit):
		return printed, "", err
	case err != nil:
		return printed, readEvidence(printed, fmt.Sprintf("exit %d", exit.ExitCode())), nil
	case !strings.Contains(printed, "violations="):
		return printed, "", fmt.Errorf("the simulator printed no `violations=`:\n%s", output)
	case !clean.MatchString(printed):
		return printed, readEvidence(printed, "violations, yet exit 0"), nil
	}
	return printed, "", nil
}

// clean is how a seed without a finding ends.
var clean = regexp.MustCompile(`\bviolations=0\b`)

// readEvidence is the first broken invariant's name ("violation: S3 barrier: …"), else how a panic begins, else
// otherwise.
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
