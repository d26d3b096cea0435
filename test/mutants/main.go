// Command mutants plants each known bug in the code and checks that the tests notice it: the simulator's seeds on a
// small world, a golden scenario, or a test of a package. If nothing notices a bug, the tests have a gap, and the
// command fails.
//
// The tree is never changed. The changed file is written to a temporary folder, and the go command reads it from there
// (-overlay). Several mutants are tried at a time, each in separate processes, because a changed program may do
// anything.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// trial is the configuration of a run of this command.
type trial struct {
	root    string // the repository
	patches string // the folder of *.patch files
	program string // the simulator's package
	world   string // the world that the simulator runs
	tests   string // the package of the golden scenarios
	seeds   int    // the number of seeds that must catch a mutant
	atOnce  int
	name    string // only mutants whose name contains this
	since   string // only mutants in folders changed since this commit, and a few others; empty: all
	most    int    // maximum number of those
	// limit bounds one mutant with its build. seedLimit bounds one seed, for bugs that never end.
	limit     time.Duration
	seedLimit time.Duration
}

func main() {
	var t trial
	flag.StringVar(&t.root, "root", ".", "the repository's root")
	flag.StringVar(&t.patches, "patches", "test/mutants", "the folder of *.patch files")
	flag.StringVar(&t.program, "program", "./cmd/synapse-sim", "the simulator's package")
	flag.StringVar(&t.world, "world", "small", "the simulator's world")
	flag.StringVar(&t.tests, "tests", "./test/scenario", "the package of the golden scenarios")
	flag.IntVar(&t.seeds, "seeds", 400, "number of seeds that must catch a mutant")
	flag.IntVar(&t.atOnce, "at-once", 2, "number of mutants to try at a time")
	flag.StringVar(&t.name, "name", "", "try only mutants whose name contains this")
	flag.StringVar(&t.since, "since", "", "try only mutants of folders that changed since this commit, and a few others")
	flag.IntVar(&t.most, "most", 12, "maximum number of mutants to try with -since")
	flag.DurationVar(&t.limit, "limit", 5*time.Minute, "time limit of one mutant")
	flag.DurationVar(&t.seedLimit, "seed-limit", 30*time.Second, "time limit of one seed")
	flag.Parse()
	survivors, err := t.run(func(line string) { fmt.Println(line) })
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutants:", err)
		os.Exit(2)
	}
	if survivors > 0 {
		os.Exit(1)
	}
}

// run tries every mutant and reports each as soon as its outcome is known. It returns how many survived.
func (t trial) run(tell func(string)) (survivors int, err error) {
	began := time.Now()
	mutants, err := t.load()
	if err != nil {
		return 0, err
	}
	folder, err := os.MkdirTemp("", "synapse-mutants-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(folder)

	// The unchanged code must pass all checks of the mutants. Otherwise an unrelated bug would "catch" each mutant.
	verdict := t.tryUnharmed(mutants, folder)
	switch {
	case verdict.err != nil:
		return 0, verdict.err
	case verdict.caught:
		return 0, fmt.Errorf("the unchanged code already fails: %s\n%s", verdict, verdict.said)
	}
	seeds, cpu := 0, verdict.cpu
	for outcome := range t.tryAll(mutants, folder) {
		if e := outcome.verdict.err; e != nil {
			// The other mutants continue. Their processes use the folder, and their outcomes are useful
			// too.
			err = errors.Join(err, fmt.Errorf("mutant %s: %w", outcome.mutant.Name, e))
			continue
		}
		if !outcome.verdict.caught {
			survivors++
		}
		seeds += outcome.verdict.seed
		cpu += outcome.verdict.cpu
		tell(fmt.Sprintf("mutant %s %s", outcome.mutant.Name, outcome.verdict))
	}
	if err != nil {
		return 0, err
	}
	tell(fmt.Sprintf("mutants=%d caught=%d survived=%d seeds=%d took=%s cpu=%s",
		len(mutants), len(mutants)-survivors, survivors, seeds, time.Since(began).Round(time.Second), cpu.Round(time.Second)))
	return survivors, nil
}

// load reads the mutants and checks that each applies, so that a stale patch is found in the first second and not in
// the tenth minute.
func (t trial) load() ([]patch.Mutant, error) {
	all, err := patch.Load(t.root, t.patches)
	if err != nil {
		return nil, err
	}
	var mutants []patch.Mutant
	for _, mutant := range all {
		if !strings.Contains(mutant.Name, t.name) {
			continue
		}
		if _, err := mutant.Apply(t.root); err != nil {
			return nil, err
		}
		mutants = append(mutants, mutant)
	}
	if t.since != "" {
		if mutants, err = some(t.root, t.since, t.most, mutants); err != nil {
			return nil, err
		}
	}
	if len(mutants) == 0 {
		return nil, fmt.Errorf("no mutant in %s matches %q", t.patches, t.name)
	}
	return mutants, nil
}

// outcome is the result of one mutant.
type outcome struct {
	mutant  patch.Mutant
	verdict verdict
}

// tryAll distributes the mutants over the workers. The channel has room for all outcomes, so that no worker blocks if
// the reader stops after an error.
func (t trial) tryAll(mutants []patch.Mutant, folder string) <-chan outcome {
	waiting := make(chan patch.Mutant, len(mutants))
	for _, mutant := range mutants {
		waiting <- mutant
	}
	close(waiting)
	outcomes := make(chan outcome, len(mutants))
	var workers sync.WaitGroup
	for range t.atOnce {
		workers.Go(func() {
			for mutant := range waiting {
				found := t.try(mutant, folder)
				// A test with real processes may miss a bug by chance, for example if two signals
				// arrive as one.
				for range 2 {
					if !found.caught && found.err == nil && !mutant.BySeeds() {
						found = t.try(mutant, folder)
					}
				}
				outcomes <- outcome{mutant, found}
			}
		})
	}
	go func() {
		workers.Wait()
		close(outcomes)
	}()
	return outcomes
}
