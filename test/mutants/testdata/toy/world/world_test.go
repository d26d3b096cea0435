package world

import (
	"os/exec"
	"testing"
)

func TestScenarios(t *testing.T) {
	t.Run("third", func(t *testing.T) {
		if Admit(3) {
			t.Error("let in")
		}
	})
}

func TestAdmit(t *testing.T) {
	if Admit(6) {
		t.Error("let in")
	}
}

// TestBuilt tries what it builds.
func TestBuilt(t *testing.T) {
	run := exec.Command("go", "run", "toy/cmd/synapse-sim", "-world", "small", "-seed", "9")
	if text, err := run.CombinedOutput(); err != nil {
		t.Errorf("%s", text)
	}
}

func TestSkipped(t *testing.T) { t.Skip("as where a database is missing") }
