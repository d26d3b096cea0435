package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
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
		all, err := patch.Load(filepath.Join("testdata", folder))
		if err != nil {
			return "", err
		}
		replace := map[string]string{}
		for _, p := range all {
			text, err := p.Apply(root)
			if err != nil {
				return "", err
			}
			file, err := filepath.Abs(filepath.Join(root, p.File))
			if err != nil {
				return "", err
			}
			replace[file] = filepath.Join(bin, folder+"-"+p.Name+".go")
			if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
				return "", err
			}
		}
		note, err := json.Marshal(map[string]any{"Replace": replace})
		if err != nil {
			return "", err
		}
		overlay, built := filepath.Join(bin, folder+".json"), filepath.Join(bin, program+"-of-"+folder)
		if err := os.WriteFile(overlay, note, 0o600); err != nil {
			return "", err
		}
		if out, err := exec.Command("go", "build", "-overlay", overlay, "-o", built, root+"/cmd/"+program).CombinedOutput(); err != nil {
			return "", fmt.Errorf("%w: %s", err, out)
		}
		return built, nil
	})
}
