package world

import "testing"

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

func TestSkipped(t *testing.T) { t.Skip("as where a database is missing") }
