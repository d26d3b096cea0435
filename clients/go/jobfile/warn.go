package jobfile

import (
	"errors"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/messages"
)

// This file parses the warning of a job: a signal, and the time before the end of the job. Slurm's notation
// (B and a number of seconds) is refused with a hint.

const warnHint = "write a signal and the time before the end, such as USR1@120s"

// ParseWarn parses a warning such as USR1@120s.
func ParseWarn(s string) (*messages.WarnSpec, *Problem) {
	name, span, ok := strings.Cut(s, "@")
	if !ok || name == "" || span == "" {
		return nil, say(warnHint, "%s is not a signal and a duration", quote(s))
	}
	signal, p := ParseSignal(name)
	if p != nil {
		if p.Hint == "" {
			p.Hint = warnHint
		}
		return nil, p
	}
	ms, err := ParseDuration(span)
	var problem *Problem
	if errors.As(err, &problem) {
		return nil, problem
	}
	return &messages.WarnSpec{Signal: signal, AheadMs: ms}, nil
}

// FormatWarn formats a warning for ParseWarn. It returns "" if there is none.
func FormatWarn(w *messages.WarnSpec) string {
	if w == nil {
		return ""
	}
	return strings.TrimPrefix(SignalName(w.GetSignal()), "SIG") + "@" + FormatDuration(w.GetAheadMs())
}

func readWarn(r *reader, n *yaml.Node, path string) {
	if warn, ok := parsed(r, n, path, "a signal and a span of time", ParseWarn); ok {
		r.spec.Warn = warn
	}
}
