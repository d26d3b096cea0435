package progress

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/yi-json/synapse/messages"
)

// This file parses the lines of $SYNAPSE_PROGRESS: JSON objects with a step, a total and any metrics.

// MaxLineBytes bounds a line of the file.
const MaxLineBytes = 4 << 10

var errLine = errors.New("the line is not a JSON object with a step, a total or metrics")

// ParseLine parses one line. It ignores values that are objects, arrays or null.
func ParseLine(line []byte) (Report, error) {
	var fields map[string]json.RawMessage
	if len(line) > MaxLineBytes || json.Unmarshal(finite(line), &fields) != nil || fields == nil {
		return Report{}, errLine
	}
	var r Report
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		value := fields[name]
		switch name {
		case "step":
			n, ok := whole(value)
			if !ok {
				return Report{}, errLine
			}
			r.Step, r.HasStep = n, true
		case "total":
			n, ok := whole(value)
			if !ok {
				return Report{}, errLine
			}
			r.Total = n
		case "work_ms":
			if ms, err := strconv.ParseFloat(string(value), 64); err == nil && ms > 0 {
				r.WorkUs = int64(min(ms*1000, messages.MaxStepUs))
			}
		case "pause":
			if text, ok := metricText(value); ok && text != "false" {
				r.Pause = text
			}
		default:
			if text, ok := metricText(value); ok {
				r.Metrics = append(r.Metrics, Metric{name, text})
			}
		}
	}
	return r, nil
}

// whole parses a number of steps. It accepts 1200, and also 1200.0, because some programs write it so.
func whole(value json.RawMessage) (int64, bool) {
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f != math.Trunc(f) || f < 0 || f > messages.MaxSteps {
		return 0, false
	}
	return int64(f), true
}

// metricText returns the text of a number, a string or a boolean.
func metricText(value json.RawMessage) (string, bool) {
	switch value[0] {
	case '{', '[', 'n':
		return "", false
	case '"':
		var text string
		err := json.Unmarshal(value, &text)
		return text, err == nil
	}
	return string(value), true
}

// finite puts the numbers that JSON does not have into quotes. For example, Python writes NaN for a loss that is not a
// number.
func finite(line []byte) []byte {
	if !bytes.Contains(line, []byte("NaN")) && !bytes.Contains(line, []byte("Infinity")) {
		return line
	}
	var out []byte
	quoted := false
	for i := 0; i < len(line); i++ {
		word := ""
		if !quoted {
			word = endless(line[i:])
		}
		if word != "" {
			out = append(append(append(out, '"'), word...), '"')
			i += len(word) - 1
			continue
		}
		switch {
		case line[i] == '\\' && quoted && i+1 < len(line):
			out = append(out, line[i])
			i++
		case line[i] == '"':
			quoted = !quoted
		}
		out = append(out, line[i])
	}
	return out
}

// endless returns NaN, Infinity or -Infinity if the text begins with it, and otherwise an empty string.
func endless(text []byte) string {
	for _, word := range []string{"NaN", "Infinity", "-Infinity"} {
		if bytes.HasPrefix(text, []byte(word)) {
			return word
		}
	}
	return ""
}
