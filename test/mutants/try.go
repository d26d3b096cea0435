// This file owns the trial of one mutant: build it aside, run it until something notices.
package main

import (
	"bytes"
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
	scenario string // what was tried, if not seeds
	seed     int    // the last seed that ran
	evidence string // the invariant that broke, or how the program died
	late     bool   // the time was up before the seeds were
	err      error  // the trial itself failed; nothing is known
}

// String is the line that a reader sees behind the mutant's name.
func (v verdict) String() string {
	switch {
	case v.caught && v.scenario != "":
		return fmt.Sprintf("caught by scenario %s (%s)", v.scenario, v.evidence)
	case v.caught:
		return fmt.Sprintf("caught by seed=%d (%s)", v.seed, v.evidence)
	case v.scenario != "":
		return "SURVIVED scenario " + v.scenario
	case v.late:
		return fmt.Sprintf("SURVIVED after %d seeds (its time was up)", v.seed)
	}
	return fmt.Sprintf("SURVIVED after %d seeds", v.seed)
}

// unharmedSeeds is how many seeds the code as it is has to pass first. That all pass is the simulator's own test; here
// a handful is enough to see that the program, its flags and its world are there.
const unharmedSeeds = 5

// tryUnharmed runs the code as it is over what the mutants need.
func (t trial) tryUnharmed(mutants []patch.Mutant, folder string) verdict {
	var last verdict
	if slices.ContainsFunc(mutants, func(m patch.Mutant) bool { return m.Scenario == "" }) {
		t.seeds = min(t.seeds, unharmedSeeds) // t is a copy.
		if last = t.trySeeds("unharmed", "", folder); last.caught || last.err != nil {
			return last
		}
	}
	tried := map[string]bool{}
	for _, mutant := range mutants {
		if mutant.Scenario == "" || tried[mutant.Scenario] {
			continue
		}
		tried[mutant.Scenario] = true
		if last = t.tryScenario("unharmed", mutant.Scenario, "", folder); last.caught || last.err != nil {
			return last
		}
	}
	return last
}

// try plants one mutant and runs what must catch it.
func (t trial) try(mutant patch.Mutant, folder string) verdict {
	overlay, err := t.plant(mutant, folder)
	if err != nil {
		return verdict{err: err}
	}
	if mutant.Scenario != "" {
		return t.tryScenario(mutant.Name, mutant.Scenario, overlay, folder)
	}
	return t.trySeeds(mutant.Name, overlay, folder)
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
func (t trial) trySeeds(name, overlay, folder string) verdict {
	deadline, cancel := context.WithTimeout(context.Background(), t.limit)
	defer cancel()
	program := filepath.Join(folder, name+".sim")
	defer os.Remove(program) // A simulator is 10 MB, and there are many mutants.
	if err := t.build(deadline, overlay, "build", "-o", program, t.program); err != nil {
		return verdict{err: err}
	}
	for seed := 1; seed <= t.seeds; seed++ {
		evidence, err := t.play(deadline, folder, program, "-world", t.world, "-seed", strconv.Itoa(seed))
		switch {
		case deadline.Err() != nil:
			return verdict{seed: seed, late: true}
		case err != nil:
			return verdict{err: err}
		case evidence != "":
			return verdict{caught: true, seed: seed, evidence: evidence}
		}
	}
	return verdict{seed: t.seeds}
}

// tryScenario builds the golden dialogues' test and plays the one that must notice. A dialogue that is not there would
// pass for a test that ran, so the verbose output has to name it.
func (t trial) tryScenario(name, scenario, overlay, folder string) verdict {
	deadline, cancel := context.WithTimeout(context.Background(), t.limit)
	defer cancel()
	program := filepath.Join(folder, name+"."+strings.ReplaceAll(scenario, "/", ".")+".test")
	defer os.Remove(program)
	if err := t.build(deadline, overlay, "test", "-c", "-o", program, t.tests); err != nil {
		return verdict{err: err}
	}
	run, cancelRun := context.WithTimeout(deadline, t.seedLimit)
	defer cancelRun()
	command := exec.CommandContext(run, "sh", "-c", bounded, program,
		"-test.v", "-test.run", "Scenario.*/^"+regexp.QuoteMeta(scenario)+"$")
	command.Dir = filepath.Join(t.root, t.tests)
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && !errors.As(err, &exit):
		return verdict{err: err}
	case err != nil && run.Err() != nil:
		return verdict{caught: true, scenario: scenario, evidence: "it never came to an end"}
	case err != nil:
		return verdict{caught: true, scenario: scenario, evidence: "exit " + strconv.Itoa(exit.ExitCode())}
	case !bytes.Contains(output, []byte("/"+scenario)):
		return verdict{err: fmt.Errorf("there is no scenario %s in %s", scenario, t.tests)}
	}
	return verdict{scenario: scenario}
}

// build runs the go command over the tree, with the mutant in it. A mutant that does not compile proves nothing.
func (t trial) build(ctx context.Context, overlay, verb string, arguments ...string) error {
	arguments = append([]string{verb}, arguments...)
	if overlay != "" {
		arguments = slices.Insert(arguments, 1, "-overlay", overlay)
	}
	command := exec.CommandContext(ctx, "go", arguments...)
	command.Dir = t.root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("does not build: %w\n%s", err, output)
	}
	return nil
}

// bounded starts a program with a ceiling on its memory (4 GiB, in KiB), where the shell has one to give: a bug that
// piles up messages without end shall die alone.
const bounded = `ulimit -v 4194304 2>/dev/null; exec "$0" "$@"`

// play runs one seed and answers what gave the mutant away, or nothing.
func (t trial) play(ctx context.Context, folder, program string, arguments ...string) (evidence string, err error) {
	run, cancel := context.WithTimeout(ctx, t.seedLimit)
	defer cancel()
	command := exec.CommandContext(run, "sh", append([]string{"-c", bounded, program}, arguments...)...)
	command.Dir = folder
	command.WaitDelay = time.Second
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	switch {
	case err != nil && run.Err() != nil:
		return "it never came to an end", nil
	case err != nil && !errors.As(err, &exit):
		return "", err
	case err != nil:
		return readEvidence(string(output), fmt.Sprintf("exit %d", exit.ExitCode())), nil
	case !strings.Contains(string(output), "violations="):
		return "", fmt.Errorf("the simulator printed no `violations=`:\n%s", output)
	case !clean.MatchString(string(output)):
		return readEvidence(string(output), "violations, yet exit 0"), nil
	}
	return "", nil
}

// clean is how a seed without a finding ends.
var clean = regexp.MustCompile(`\bviolations=0\b`)

// readEvidence is the first broken invariant's name ("violation: S3 barrier: …"), else how a panic begins, else otherwise.
func readEvidence(output, otherwise string) string {
	died := ""
	for _, line := range strings.Split(output, "\n") {
		if violation, is := strings.CutPrefix(strings.TrimSpace(line), "violation: "); is {
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
