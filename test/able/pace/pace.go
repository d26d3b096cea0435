// Package pace scales the deadlines of tests with the speed of the machine. It measures how long small processes take
// to start. `make test` measures once in a run, and the measurement never decides anything in a program. A deadline of
// a test only detects that something hangs. How quick something is, only benchmarks measure.
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
	// usual is how long one start takes on the machine for which the deadlines of tests were chosen: two cores,
	// with two starts at a time.
	usual = time.Millisecond
	most  = 16
)

// Factor is how many times slower than usual this machine is: 1, 2, 4, 8 or 16. It has only these values, so that the
// next run finds the results of packages that passed in go test's cache.
var Factor = sync.OnceValue(func() int {
	if n, err := strconv.Atoi(os.Getenv(Variable)); err == nil && n > 0 {
		return min(n, most)
	}
	return Rounded(Measure())
})

// Rounded returns the least power of two that is not below the cost of a start, measured in units of usual.
func Rounded(cost time.Duration) int {
	factor := 1
	for factor < most && cost > time.Duration(factor)*usual {
		factor *= 2
	}
	return factor
}

// Measure starts small processes, as many at a time as there are processors, and returns how long each took.
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

// Of returns the deadline on this machine that corresponds to d on a usual machine.
func Of(d time.Duration) time.Duration { return d * time.Duration(Factor()) }

// Until returns the moment that is Of(d) from now.
func Until(d time.Duration) time.Time { return time.Now().Add(Of(d)) }

// CrowdVariable is the environment variable that enables the tests that need many nodes or clients.
const CrowdVariable = "SYNAPSE_TEST_CROWD"

// Crowd skips a test in `make test`. `make test-integration` runs it, by the names in CROWDS of the Makefile. Such a
// test needs hundreds of nodes or clients, or compares the times of two runs, and its result means little on a machine
// that is slow or busy. Or it computes for a long time, and few changes can break it.
func Crowd(t testing.TB) {
	t.Helper()
	if !Crowded() {
		t.Skip("-crowd: `make test-integration` runs it")
	}
}

// Crowded reports whether a test may use as many nodes or clients as it can, which is so in `make test-integration`
// alone.
func Crowded() bool { return os.Getenv(CrowdVariable) != "" }

// Wait calls holds again and again, often at first and then less often, and reports whether it became true before most
// had passed. A call may be expensive, for example if it lists all processes of a machine.
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
