package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/sim/record"
)

// This file runs the simulator, which is a separate program so that synapse-cli does not contain it.

// replay sends an order to the simulator and shows the progress. Ctrl-C ends the replay with the results so far.
func (a *app) replay(program string, o record.Order, interrupted *atomic.Bool) (*record.Result, error) {
	order, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	run := exec.Command(program, "replay")
	said := &lineByLine{line: func(text string) { a.say("synapse-sim: %s", text) }}
	run.Stdin, run.Stderr = bytes.NewReader(order), said
	apart(run) // Ctrl-C is forwarded once; it must not also arrive directly
	out, err := run.StdoutPipe()
	if err == nil {
		err = run.Start()
	}
	if err != nil {
		return nil, &exit.Failure{Code: exit.Failed, Text: err.Error()}
	}
	defer onInterrupt(func() {
		interrupted.Store(true)
		_ = run.Process.Signal(os.Interrupt)
	})()
	result, heard := a.hear(out, o)
	if err := run.Wait(); err != nil && heard == nil {
		heard = fmt.Errorf("%s: %w", program, err)
	}
	said.end()
	if heard != nil {
		return nil, &exit.Failure{Code: exit.Failed, Text: heard.Error()}
	}
	return result, nil
}

// lineByLine passes on the output of a process line by line.
type lineByLine struct {
	line func(text string)
	rest []byte
}

// Write passes on the complete lines.
func (l *lineByLine) Write(data []byte) (int, error) {
	l.rest = append(l.rest, data...)
	for {
		line, rest, whole := bytes.Cut(l.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		l.line(string(line))
		l.rest = append([]byte(nil), rest...)
	}
}

// end passes on an incomplete last line.
func (l *lineByLine) end() {
	if len(l.rest) > 0 {
		l.line(string(l.rest))
	}
}

// program finds a program next to this one, or else in PATH.
func (a *app) program(name string) ([]string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := exec.LookPath(beside); err == nil {
			return []string{beside}, nil
		}
	}
	found, err := exec.LookPath(name)
	if err != nil {
		return nil, &exit.Failure{Code: exit.Failed, Text: name + " not found next to this program or in PATH",
			Hint: "build all programs of Synapse into one directory"}
	}
	return []string{found}, nil
}

// hear reads the simulator's output up to its result.
func (a *app) hear(out io.Reader, o record.Order) (*record.Result, error) {
	began, told := time.Now(), time.Now()
	for words := json.NewDecoder(out); ; {
		var w record.Word
		if err := words.Decode(&w); err != nil {
			return nil, fmt.Errorf("simulator ended without a result: %w", err)
		}
		switch {
		case w.Err != "":
			return nil, errors.New(w.Err)
		case w.Result != nil:
			w.Result.Picture = w.Picture
			return w.Result, nil
		}
		if now := time.Now(); now.Sub(told) >= progressEvery {
			told = now
			left := time.Duration(float64(now.Sub(began)) / float64(w.Ended) * float64(len(o.Jobs)-w.Ended))
			a.say("%s: %d of %d jobs have finished, about %s left", o.Policy, w.Ended, len(o.Jobs),
				left.Round(time.Second))
		}
	}
}

// progressEvery is the interval of progress lines.
const progressEvery = 5 * time.Second

// onInterrupt calls do at the first Ctrl-C. The next one ends the program. Call end to stop this.
func onInterrupt(do func()) (end func()) {
	signals := make(chan os.Signal, 1)
	done := make(chan struct{})
	signal.Notify(signals, os.Interrupt)
	go func() {
		select {
		case <-signals:
			signal.Stop(signals)
			do()
		case <-done:
		}
	}()
	return func() {
		signal.Stop(signals)
		close(done)
	}
}
