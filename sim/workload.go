package sim

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file defines the behaviour of simulated processes. A job's command is a small script that the simulated launcher
// plays. The actors see only a command.

// script describes how the members of a job behave.
type script struct {
	run   time.Duration // run time of a member
	exit  int32         // exit code
	rank  int32         // only this rank ends so, after half the time; −1: all ranks
	runs  int32         // only in the first so many attempts; 0: in every attempt
	oom   bool          // it is killed for its memory instead
	deaf  bool          // it ignores SIGTERM
	saves bool          // it saves its work at SIGTERM, and exits with 0
	heeds bool          // it does so when it is warned
	acks  string        // how it answers a request to save a checkpoint; empty: not at all
	hangs int32         // this rank + 1, modulo the number of ranks, hangs in the first attempt; 0: none does
	idle  idling        // when its tasks do nothing
	moves bool          // another rank still reports steps
	image time.Duration // duration of its preparation; 0: random
}

// command returns the script in the form of a job's command.
func (s script) command() []string {
	words := []string{"sim", "run=" + s.run.String()}
	if s.exit != 0 {
		words = append(words, fmt.Sprintf("exit=%d", s.exit))
	}
	if s.rank >= 0 {
		words = append(words, fmt.Sprintf("rank=%d", s.rank))
	}
	if s.runs > 0 {
		words = append(words, fmt.Sprintf("runs=%d", s.runs))
	}
	if s.image > 0 {
		words = append(words, "image="+s.image.String())
	}
	if s.oom {
		words = append(words, "oom")
	}
	if s.saves {
		words = append(words, "saves")
	}
	if s.heeds {
		words = append(words, "heeds")
	}
	if s.acks != "" {
		words = append(words, "acks="+s.acks)
	}
	if s.hangs > 0 {
		words = append(words, fmt.Sprintf("hangs=%d", s.hangs))
	}
	if s.moves {
		words = append(words, "moves")
	}
	if s.deaf {
		words = append(words, "deaf")
	}
	return words
}

// wordsOf returns the behavior of a job's tasks: its command, or the arguments of its script.
func wordsOf(spec *messages.JobSpec) []string {
	if s := spec.GetScript(); s != nil {
		return s.Args
	}
	return spec.GetCommand()
}

// parseScript parses a script and ignores unknown words. So any command may be submitted to a simulated cluster, and
// runs for a minute.
func parseScript(words []string) script {
	s := script{run: time.Minute, rank: -1}
	for _, word := range words {
		key, value, _ := strings.Cut(word, "=")
		switch key {
		case "run":
			if d, err := time.ParseDuration(value); err == nil {
				s.run = d
			}
		case "image":
			if d, err := time.ParseDuration(value); err == nil {
				s.image = d
			}
		case "exit":
			s.exit = parsed(value)
		case "rank":
			s.rank = parsed(value)
		case "runs":
			s.runs = parsed(value)
		case "oom":
			s.oom = true
		case "saves":
			s.saves = true
		case "heeds":
			s.heeds = true
		case "acks":
			s.acks = value
		case "hangs":
			s.hangs = parsed(value)
		case "idle":
			s.idle = idlingOf(value)
		case "moves":
			s.moves = true
		case "deaf":
			s.deaf = true
		}
	}
	return s
}

func parsed(value string) int32 {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0
	}
	return int32(n)
}

// end returns how one member ends in one attempt, and after how long.
func (s script) end(rank, run int32) (after time.Duration, code int32, oom bool) {
	if s.runs > 0 && run > s.runs || s.rank >= 0 && s.rank != rank {
		return s.run, 0, false
	}
	if s.rank >= 0 {
		after = s.run / 2
	} else {
		after = s.run
	}
	if s.oom {
		return after, 137, true
	}
	return after, s.exit, false
}
