//go:build linux

// This file has the cases of many tasks at once, and of a kill during a start.
package conformance

import (
	"sync"
	"sync/atomic"
	"time"
)

var loadCases = []testCase{
	{"Start against Kill", []Trait{EarlyKill}, startKill},
	{"200 concurrent starts leave nothing", []Trait{ManyAtOnce}, manyStarts},
}

// startKill kills a task at each moment of its start. The task must end, and nothing may be left.
func startKill(s *suite) {
	for round := range 30 {
		running, err := s.driver.Start(s.sh("sleep 1000"))
		if err != nil {
			s.Fatal(err)
		}
		time.Sleep(time.Duration(round) * 200 * time.Microsecond)
		if err := running.Kill(); err != nil {
			s.Error(err)
		}
		if got := await(s, running); got.Code != 137 {
			s.Errorf("round %d ended with %+v", round, got)
		}
	}
}

func manyStarts(s *suite) {
	const starts = 200
	var group sync.WaitGroup
	var wrong atomic.Int64
	for range starts {
		group.Go(func() {
			running, err := s.driver.Start(s.sh("exit 9"))
			if err != nil {
				s.Errorf("start: %v", err)
				return
			}
			select {
			case <-running.Done():
				if running.Exit().Code != 9 {
					wrong.Add(1)
				}
			case <-time.After(2 * limit):
				s.Error("a task never ended")
			}
		})
	}
	group.Wait()
	if wrong.Load() > 0 {
		s.Errorf("%d of %d ended with another code", wrong.Load(), starts)
	}
}
