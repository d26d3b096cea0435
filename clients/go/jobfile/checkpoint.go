package jobfile

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file parses the checkpoints of a job: the interval alone (10m), or also the request to save before a stop. A
// job file has a mapping, and the command line has the same keys with commas: every=10m,signal=USR1,grace=5m.

// These are the values of ack and commit, in the order of their numbers.
var (
	ackWords    = []string{"file", "exit", "socket"}
	commitWords = []string{"all", "rank0"}
)

// Checkpoint holds the interval of the checkpoints and the request to save before a stop.
type Checkpoint struct {
	Every  Amount `json:"every,omitempty" yaml:"every,omitempty"`
	Signal string `json:"signal,omitempty" yaml:"signal,omitempty"`
	Grace  Amount `json:"grace,omitempty" yaml:"grace,omitempty"`
	Ack    string `json:"ack,omitempty" yaml:"ack,omitempty"`
	Commit string `json:"commit,omitempty" yaml:"commit,omitempty"`
}

func saves(s *spec) *messages.CheckpointSpec { return made(&s.Checkpoint) }

// checkpointKeys returns the keys of the mapping. Each of them except the interval asks for a request to save.
func checkpointKeys() []key {
	return []key{
		{"every", "checkpoint_ms", readAmount(ParseDuration, func(s *spec) *int64 { return &s.CheckpointMs })},
		{"signal", "checkpoint.signal", func(r *reader, n *yaml.Node, path string) {
			if number, ok := parsed(r, n, path, "a signal", ParseSignal); ok {
				saves(r.spec).Signal = number
			}
		}},
		{"grace", "checkpoint.grace_ms", readAmount(ParseDuration, func(s *spec) *int64 { return &saves(s).GraceMs })},
		{"ack", "checkpoint.ack", readWord("a way to acknowledge", ackWords, func(s *spec, word string) {
			saves(s).Ack = messages.SaveAck(1 + index(ackWords, word))
		})},
		{"commit", "checkpoint.commit", readWord("a set of ranks", commitWords, func(s *spec, word string) {
			saves(s).Commit = messages.SaveCommit(1 + index(commitWords, word))
		})},
	}
}

func index(words []string, word string) int32 {
	for i, w := range words {
		if w == word {
			return int32(i)
		}
	}
	return -1
}

// readCheckpoint reads the interval alone, or the mapping.
func readCheckpoint(r *reader, n *yaml.Node, path string) {
	if n.Kind == yaml.MappingNode {
		readSection(r, n, path)
		return
	}
	readAmount(ParseDuration, func(s *spec) *int64 { return &s.CheckpointMs })(r, n, path)
}

// ParseCheckpoint parses the form of the command line into a job.
func ParseCheckpoint(text string, to *messages.JobSpec) *Problem {
	if !strings.Contains(text, "=") {
		ms, err := ParseDuration(text)
		to.CheckpointMs = ms
		return problemOf(err)
	}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(pair), "=")
		if p := setCheckpoint(to, name, value); p != nil {
			return p
		}
	}
	return nil
}

func setCheckpoint(to *messages.JobSpec, name, value string) *Problem {
	word := func(words []string, set func(int32)) *Problem {
		i := index(words, value)
		if i < 0 {
			return say("use "+strings.Join(words, " or "), "%s=%s is not supported", name, quote(value))
		}
		set(i + 1)
		return nil
	}
	var err error
	switch name {
	case "every":
		to.CheckpointMs, err = ParseDuration(value)
	case "grace":
		saves(to).GraceMs, err = ParseDuration(value)
	case "signal":
		number, p := ParseSignal(value)
		saves(to).Signal = number
		return p
	case "ack":
		return word(ackWords, func(n int32) { saves(to).Ack = messages.SaveAck(n) })
	case "commit":
		return word(commitWords, func(n int32) { saves(to).Commit = messages.SaveCommit(n) })
	default:
		return say("use every, signal, grace, ack or commit, such as every=10m,signal=USR1,grace=5m",
			"%s is not a key of a checkpoint", quote(name))
	}
	return problemOf(err)
}

func problemOf(err error) *Problem {
	var p *Problem
	errors.As(err, &p)
	return p
}

// checkpointOf returns the value of the key checkpoint: the interval alone if there is no request to save.
func checkpointOf(s *messages.JobSpec) any {
	every, c := amount(s.GetCheckpointMs(), FormatDuration), s.GetCheckpoint()
	switch {
	case c == nil && every == "":
		return nil
	case c == nil:
		return every
	}
	is := &Checkpoint{Every: every, Grace: Amount(FormatDuration(s.SaveGrace().Milliseconds()))}
	if c.GetSignal() != 0 {
		is.Signal = SignalName(c.GetSignal())
	}
	if c.GetAck() != 0 {
		is.Ack = ackWords[c.GetAck()-1]
	}
	if c.GetCommit() != 0 {
		is.Commit = commitWords[c.GetCommit()-1]
	}
	return is
}
