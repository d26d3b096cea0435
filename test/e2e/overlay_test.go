package e2e

import (
	"path/filepath"
	"sync"

	"github.com/yi-json/synapse/test/mutants/patch"
)

// This file owns programs with something in them that a test needs and nobody else
// may have: patches of testdata, laid over the sources (go build -overlay). The
// programs as they are shipped know nothing of them.

// overlaid builds a program once with the patches of a folder of testdata, and
// answers its path.
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
