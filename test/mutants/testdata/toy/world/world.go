// Package world is a system small enough to have two bugs planted in it.
package world

// Admit is the rule under test.
func Admit(seed int) bool {
	if seed%3 == 0 {
		return false
	}
	return true
}

// Unused is a place for a bug that nothing can see.
func Unused() int { return 1 }
