package progress

import (
	"bytes"
	"regexp"
	"strconv"

	"github.com/yi-json/synapse/messages"
)

// This file finds the progress in a task's output: the last line that matches the job's pattern.

// outputBytes bounds the bytes that one look reads from the output.
const outputBytes = 16 << 10

// Output remembers how far the output of one task was searched.
type Output struct {
	pattern *regexp.Regexp
	at      int64  // offset in the stream
	rest    []byte // the beginning of a line that has not ended yet
}

// NewOutput returns an Output that searches for a pattern. It returns nil if the pattern is empty or invalid.
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

// Search returns the newest progress in the output that was written since the last call. tail reads the stream from an
// offset to the end, but at most its last bytes. It returns these bytes and the offset of the first one.
func (o *Output) Search(tail func(from int64, most int) (at int64, data []byte)) (Report, bool) {
	at, data := tail(o.at, outputBytes)
	if len(data) == 0 {
		return Report{}, false
	}
	next := at + int64(len(data))
	switch {
	case at == o.at:
		data = append(o.rest, data...)
	default: // output was skipped, so data may begin in the middle of a line
		data = data[bytes.IndexAny(data, "\r\n")+1:]
	}
	end := bytes.LastIndexAny(data, "\r\n") + 1
	o.at, o.rest = next, bytes.Clone(data[max(end, len(data)-MaxLineBytes):])
	return o.last(data[:end])
}

// last returns the progress from the last line that matches the pattern.
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
