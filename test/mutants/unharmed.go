package main

// This file tests the unchanged code with every seed and test that the mutants need. A check that fails without a bug
// would count every mutant as caught.

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// tryUnharmed divides the seeds among as many programs as mutants are tried at a time, and builds each package's tests
// once for all its checks. It returns the first failure, or the total cost.
func (t trial) tryUnharmed(mutants []patch.Mutant, folder string) verdict {
	var parts []func() verdict
	bySeeds, checks := false, map[string][]check{}
	for _, mutant := range mutants {
		if mutant.BySeeds() {
			bySeeds = true
			continue
		}
		c := t.checkOf(mutant)
		checks[c.pkg] = append(checks[c.pkg], c)
	}
	for part := 0; bySeeds && part < t.atOnce; part++ {
		first, last := part*t.seeds/t.atOnce+1, (part+1)*t.seeds/t.atOnce
		parts = append(parts,
			func() verdict { return t.tryUnharmedSeeds(fmt.Sprintf("unharmed.%d", part), folder, first, last) })
	}
	for pkg, all := range checks { //order: each is tried by itself
		parts = append(parts, func() verdict { return t.tryUnharmedChecks(pkg, all, folder) })
	}
	var total, failed verdict
	for v := range t.tryParts(parts) {
		total.cpu += v.cpu
		if v.caught || v.err != nil {
			failed = v
		}
	}
	if failed.caught || failed.err != nil {
		return failed
	}
	return total
}

// tryParts runs some parts at a time. The channel has room for all results.
func (t trial) tryParts(parts []func() verdict) <-chan verdict {
	out := make(chan verdict, len(parts))
	slots := make(chan struct{}, t.atOnce)
	var workers sync.WaitGroup
	for _, part := range parts {
		workers.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			out <- part()
		})
	}
	go func() {
		workers.Wait()
		close(out)
	}()
	return out
}

func (t trial) tryUnharmedSeeds(name, folder string, first, last int) verdict {
	v := t.trySeeds(name, "", folder, first, last)
	if v.late {
		v.err = fmt.Errorf("the unchanged code took longer than %s for %d seeds: raise -limit",
			t.limit, last-first+1)
	}
	return v
}

// tryUnharmedChecks builds one package's tests and runs each check once.
func (t trial) tryUnharmedChecks(pkg string, checks []check, folder string) (v verdict) {
	ctx, cancel := context.WithTimeout(context.Background(), t.limit)
	defer cancel()
	var used meter
	defer func() { v.cpu = used.cpu }()
	program := filepath.Join(folder, "unharmed"+strings.ReplaceAll(pkg, "/", ".")+".test")
	defer os.Remove(program)
	if err := t.build(ctx, &used, "", "test", append(slices.Clone(quick), "-c", "-o", program, pkg)...); err != nil {
		return verdict{err: err}
	}
	tried := map[string]bool{}
	for _, c := range checks {
		if tried[c.title] {
			continue
		}
		tried[c.title] = true
		if v := t.runCheck(ctx, &used, program, "", c); v.caught || v.err != nil {
			return v
		}
	}
	return verdict{}
}
