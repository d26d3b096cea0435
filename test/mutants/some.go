package main

// This file chooses the mutants of a short run: mutants in the folders that a change touches, and a few others. Mutants
// that only seeds catch are left to the long run, because each may take minutes.

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"os/exec"
	"path"
	"slices"
	"strings"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// some returns a limited number of mutants. It draws from the mutants in folders that changed since a commit, and from
// every twentieth of the others. The present commit seeds the draw, so different commits try different mutants, and
// each run can be repeated.
func some(root, since string, most int, all []patch.Mutant) ([]patch.Mutant, error) {
	head, err := git(root, "rev-parse", "HEAD")
	if err != nil {
		return nil, err
	}
	changed, err := git(root, "diff", "--name-only", since)
	if err != nil {
		return nil, err
	}
	touched := map[string]bool{}
	for _, file := range strings.Fields(changed) {
		touched[path.Dir(file)] = true
	}
	return choose(head, most, touched, all), nil
}

// choose draws from the mutants of touched folders and a twentieth of the others.
func choose(seed string, most int, touched map[string]bool, all []patch.Mutant) []patch.Mutant {
	draw := func(m *patch.Mutant) [32]byte { return sha256.Sum256([]byte(seed + m.Name)) }
	var chosen []patch.Mutant
	for _, m := range all {
		if h := draw(&m); !m.BySeeds() && (touched[path.Dir(m.File)] || int(h[0])*20 < 256) {
			chosen = append(chosen, m)
		}
	}
	slices.SortFunc(chosen, func(a, b patch.Mutant) int {
		x, y := draw(&a), draw(&b)
		return cmp.Or(slices.Compare(x[1:], y[1:]), cmp.Compare(a.Name, b.Name))
	})
	return chosen[:min(len(chosen), most)]
}

func git(root string, arguments ...string) (string, error) {
	out, err := exec.Command("git", append([]string{"-C", root}, arguments...)...).Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w", strings.Join(arguments, " "), err)
	}
	return strings.TrimSpace(string(out)), nil
}
