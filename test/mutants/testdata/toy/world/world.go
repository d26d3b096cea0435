// Package world is a system small enough to have a few bugs planted in it.
package world

import "os"

// Trace is what two runs of one seed must have in common.
func Trace() int { return 0 }

// Process differs from run to run.
func Process() int { return os.Getpid() }

// Admit is the rule under test.
func Admit(seed int) bool {
	if seed%3 == 0 {
		return false
	}
	return true
}

// Unused is a place for a bug that nothing can see.
func Unused() int { return 1 }
