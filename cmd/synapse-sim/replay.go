package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/sim/record"
	"github.com/yi-json/synapse/sim/replay"
)

// This file owns `synapse-sim replay`: an order on standard input, a line of JSON
// now and then about how far it is, and one with the result. At SIGINT the result is
// that of what has been done.

// sayEvery is how often it says how far it is.
const sayEvery = time.Second

// memoryFor is how much a replay may take before it looks for garbage more often. What it has to keep grows with the
// jobs, by some 4 KB each where a fifth of them wait at once.
func memoryFor(jobs int) int64 { return 256<<20 + int64(jobs)*6<<10 }

func carryOut(in io.Reader, out io.Writer) error {
	var o record.Order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("standard input is no order of `synapse-cli simulate`: %w", err)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryFor(len(o.Jobs)))
	}
	var stopped atomic.Bool
	interrupted := make(chan os.Signal, 1)
	signal.Notify(interrupted, os.Interrupt)
	go func() {
		<-interrupted
		stopped.Store(true)
	}()
	words := json.NewEncoder(out)
	began := time.Now()
	said := began
	result, err := replay.Run(o, replay.Watch{
		Clock: func() time.Duration { return time.Since(began) },
		Progress: func(ended int) bool {
			if now := time.Now(); now.Sub(said) >= sayEvery {
				said = now
				if words.Encode(record.Word{Ended: ended}) != nil {
					return false // nobody listens
				}
			}
			return !stopped.Load()
		},
	})
	if err != nil {
		return words.Encode(record.Word{Err: err.Error()})
	}
	result.WallS = time.Since(began).Seconds()
	return words.Encode(record.Word{Result: result, Picture: result.Picture})
}
