// Package pace scales the deadlines of tests with the speed of the machine. It owns the measurement: how long small
// processes take to start. The measurement is made once in a run of `make test`, and never decides anything in a
// program. A deadline of a test says that something hangs; how quick something is, only benchmarks say.
package pace

import (
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync"
	"testing"
	"time"
)

// Variable is the environment variable that hands the factor of this machine to all packages of a run.
const Variable = "SYNAPSE_TEST_PACE"

const (
	starts = 96 // by each processor's worker, so that it takes longer than a few periods of a CPU quota
	// usual is how long one start takes on the machine on which the deadlines of tests were chosen: two cores, with
	// as many starts at a time.
	usual = time.Millisecond
	most  = 16
)

// Factor is how many times slower than usual this machine is: 1, 2, 4, 8 or 16. Only these, so that the results of
// packages that passed are found in go test's cache next time.
var Factor = sync.OnceValue(func() int {
	if n, err := strconv.Atoi(os.Getenv(Variable)); err == nil && n > 0 {
		return min(n, most)
	}
	return Rounded(Measure())
})

// Rounded is the power of two that is not below a start's cost in units of what is usual.
func Rounded(cost time.Duration) int {
	factor := 1
	for factor < most && cost > time.Duration(factor)*usual {
		factor *= 2
	}
	return factor
}

// Measure starts small processes, as many at a time as there are processors, and answers how long each took.
func Measure() time.Duration {
	began, workers := time.Now(), runtime.GOMAXPROCS(0)
	var wait sync.WaitGroup
	for range workers {
		wait.Go(func() {
			for range starts {
				_ = exec.Command("/bin/true").Run()
			}
		})
	}
	wait.Wait()
	return time.Since(began) / starts
}

// Of is a deadline on this machine that would be d on a usual one.
func Of(d time.Duration) time.Duration { return d * time.Duration(Factor()) }

// Until is the moment that is Of(d) from now.
func Until(d time.Duration) time.Time { return time.Now().Add(Of(d)) }

// CrowdVariable is the environment variable that has tests run that need a crowd.
const CrowdVariable = "SYNAPSE_TEST_CROWD"

// Crowd leaves a test out of `make test`. `make test-integration` runs it, by the names in the Makefile's CROWDS. Such
// a test needs hundreds of nodes or clients, or compares the times of two runs, and says little on a machine that is
// slow or busy. Or it computes for long, and few changes can break it.
func Crowd(t testing.TB) {
	t.Helper()
	if !Crowded() {
		t.Skip("-crowd: `make test-integration` runs it")
	}
}

// Crowded reports whether a test may take as many nodes or clients as it can: in `make test-integration` alone.
func Crowded() bool { return os.Getenv(CrowdVariable) != "" }

// Wait looks whether something holds, often at first and then less often, and reports whether it does by the end of
// most. To look may cost much, as all processes of a machine do.
func Wait(most time.Duration, holds func() bool) bool {
	const longest = 25 * time.Millisecond
	end := time.Now().Add(most)
	for pause := time.Millisecond; !holds(); pause = min(pause*5/4, longest) {
		if time.Now().After(end) {
			return false
		}
		time.Sleep(pause)
	}
	return true
}
