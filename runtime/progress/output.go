package progress

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/yi-json/synapse/messages"
)

// This file owns the progress in a task's output: the last line that a pattern of the job matches.

// outputBytes bounds what one look reads of the output.
const outputBytes = 16 << 10

// Output remembers how far the output of one task was searched.
type Output struct {
	pattern *regexp.Regexp
	at      int64  // of the stream
	rest    []byte // a line that has not ended
}

// NewOutput searches by a pattern; nil: there is none, or it is none that a job may have.
func NewOutput(pattern string) *Output {
	if pattern == "" {
		return nil
	}
	compiled, err := messages.ProgressPattern(pattern)
	if err != nil {
		return nil
	}
	return &Output{pattern: compiled}
}

// Search finds the newest progress in what was written since the last call. The function reads the end of the stream
// from an offset on, at most so many bytes, and returns the offset at which these begin.
func (o *Output) Search(tail func(from int64, most int) (at int64, data []byte)) (Report, bool) {
	at, data := tail(o.at, outputBytes)
	if len(data) == 0 {
		return Report{}, false
	}
	next := at + int64(len(data))
	switch {
	case at == o.at:
		data = append(o.rest, data...)
	default: // the first line began before
		data = data[bytes.IndexAny(data, "\r\n")+1:]
	}
	end := bytes.LastIndexAny(data, "\r\n") + 1
	o.at, o.rest = next, bytes.Clone(data[max(end, len(data)-MaxLineBytes):])
	return o.last(data[:end])
}

// last finds the last line that the pattern matches.
func (o *Output) last(text []byte) (Report, bool) {
	for len(text) > 0 {
		begin := bytes.LastIndexAny(text[:len(text)-1], "\r\n") + 1
		if r, ok := o.match(text[begin : len(text)-1]); ok {
			return r, true
		}
		text = text[:begin]
	}
	return Report{}, false
}

func (o *Output) match(line []byte) (Report, bool) {
	groups := o.pattern.FindSubmatch(line[:min(len(line), MaxLineBytes)])
	if groups == nil {
		return Report{}, false
	}
	r := Report{HasStep: true}
	var err error
	if r.Step, err = strconv.ParseInt(string(groups[1]), 10, 64); err != nil {
		return Report{}, false
	}
	if len(groups) > 2 && len(groups[2]) > 0 {
		if r.Total, err = strconv.ParseInt(string(groups[2]), 10, 64); err != nil {
			return Report{}, false
		}
	}
	return r, r.Step <= messages.MaxSteps && r.Total <= messages.MaxSteps
}
