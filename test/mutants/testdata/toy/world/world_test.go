package world

import "testing"

func TestScenarios(t *testing.T) {
	t.Run("third", func(t *testing.T) {
		if Admit(3) {
			t.Error("let in")
		}
	})
}
