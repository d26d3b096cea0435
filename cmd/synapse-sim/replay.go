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

// This file implements `synapse-sim replay`. It reads an order from standard input, and prints lines of JSON: the
// progress at intervals, and the result. At SIGINT it prints the result so far.

// sayEvery is the interval of progress lines.
const sayEvery = time.Second

// memoryFor returns the memory of a replay before it collects garbage more often. A replay needs about 4 kB per job
// if a fifth of the jobs wait at once.
func memoryFor(jobs int) int64 { return 256<<20 + int64(jobs)*6<<10 }

func carryOut(in io.Reader, out io.Writer) error {
	var o record.Order
	if err := json.NewDecoder(in).Decode(&o); err != nil {
		return fmt.Errorf("standard input is not an order of `synapse-cli simulate`: %w", err)
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
					return false // the reader is gone
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
