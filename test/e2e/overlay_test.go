package e2e

import (
	"path/filepath"
	"sync"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// This file builds programs with test-only code: patches of testdata, laid over the sources (go build -overlay). The
// shipped programs do not contain it.

// overlaid builds a program once with the patches of a folder of testdata, and returns its path.
func overlaid(folder, program string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		const root = "../.."
		all, err := patch.Load(root, filepath.Join("testdata", folder))
		if err != nil {
			return "", err
		}
		built := filepath.Join(bin, program+"-of-"+folder)
		if err := patch.Build(root, all, "cmd/"+program, built); err != nil {
			return "", err
		}
		return built, nil
	})
}
