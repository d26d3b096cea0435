package jobfile

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file parses what follows a hang. A job file has a mapping, and the command line has the action alone (restart),
// or the same keys with commas: then=restart,floor=30s.

// hangWords lists the actions in the order of their numbers.
var hangWords = []string{"report", "restart", "none"}

// Hang holds what follows when no rank makes progress any more.
type Hang struct {
	Then  string `json:"then,omitempty" yaml:"then,omitempty"`
	Floor Amount `json:"floor,omitempty" yaml:"floor,omitempty"`
	Dump  string `json:"dump,omitempty" yaml:"dump,omitempty"`
}

func hangs(s *spec) *messages.HangSpec { return made(&s.Hang) }

func hangKeys() []key {
	return []key{
		{"then", "hang.then", readWord("an action", hangWords, func(s *spec, word string) {
			hangs(s).Then = messages.HangAction(1 + index(hangWords, word))
		})},
		{"floor", "hang.floor_ms", readAmount(ParseDuration, func(s *spec) *int64 { return &hangs(s).FloorMs })},
		{"dump", "hang.dump", func(r *reader, n *yaml.Node, path string) {
			if number, ok := parsed(r, n, path, "a signal", ParseSignal); ok {
				hangs(r.spec).Dump = number
			}
		}},
	}
}

// ParseHang parses the form of the command line.
func ParseHang(text string) (*messages.HangSpec, *Problem) {
	to := &messages.HangSpec{}
	for pair := range strings.SplitSeq(text, ",") {
		name, value, keyed := strings.Cut(strings.TrimSpace(pair), "=")
		if !keyed {
			name, value = "then", name
		}
		var problem *Problem
		switch name {
		case "then":
			i := index(hangWords, value)
			if i < 0 {
				problem = say("use "+strings.Join(hangWords, " or "), "%s is not an action on a hang", quote(value))
			}
			to.Then = messages.HangAction(i + 1)
		case "floor":
			ms, err := ParseDuration(value)
			to.FloorMs, problem = ms, problemOf(err)
		case "dump":
			to.Dump, problem = ParseSignal(value)
		default:
			problem = say("use then, floor or dump, such as then=restart,floor=30s", "%s is not a key of a hang",
				quote(name))
		}
		if problem != nil {
			return nil, problem
		}
	}
	return to, nil
}

// hangOf returns the value of the key hang.
func hangOf(s *messages.JobSpec) *Hang {
	h := s.GetHang()
	if h == nil {
		return nil
	}
	is := &Hang{Floor: amount(h.GetFloorMs(), FormatDuration)}
	if h.GetThen() != 0 {
		is.Then = hangWords[h.GetThen()-1]
	}
	if h.GetDump() != 0 {
		is.Dump = SignalName(h.GetDump())
	}
	return is
}
