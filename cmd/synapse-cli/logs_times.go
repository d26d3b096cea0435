package main

import (
	"fmt"
	"time"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/localtime"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
	"github.com/yi-json/synapse/topology"
)

// This file owns the times of lines: --timestamps prints them, and --since leaves out earlier lines.

// timing holds how the times of lines are used.
type timing struct {
	print   bool
	zone    *time.Location // of the printed times; nil: UTC
	sinceMs int64          // leave out earlier lines; 0: none
}

func (t timing) asked() bool { return t.print || t.sinceMs > 0 }

// clock finds the time of each line of one stream. Nodes store a time at most once per second.
type clock struct {
	attempt topology.Token
	at      int64 // offset of the next byte that was not printed
	marks   []mark
}

type mark struct{ offset, unixMs int64 }

// note stores the times of a part. held is the length of the part of a line that was not printed yet.
func (c *clock) note(p *api.LogPart, held int) {
	if attempt := messages.FromToken(p.GetAttempt()); attempt != c.attempt {
		c.attempt, c.marks = attempt, nil
	}
	c.at = p.GetOffset() - int64(len(p.GetData())) - int64(held)
	for _, t := range p.GetTimes() {
		if n := len(c.marks); n == 0 || t.GetOffset() > c.marks[n-1].offset {
			c.marks = append(c.marks, mark{t.GetOffset(), t.GetUnixMs()})
		}
	}
}

// line returns the time of the next line, and moves on by the length of this line. 0 means an unknown time.
func (c *clock) line(bytes int) (unixMs int64) {
	for len(c.marks) > 1 && c.marks[1].offset <= c.at {
		c.marks = c.marks[1:]
	}
	if len(c.marks) > 0 && c.marks[0].offset <= c.at {
		unixMs = c.marks[0].unixMs
	}
	c.at += int64(bytes)
	return unixMs
}

// stamped returns the text in front of a line, and whether the line is printed. A line without a known time is printed,
// because it may be recent.
func (t timing) stamped(unixMs int64) (text string, shown bool) {
	if unixMs > 0 && unixMs < t.sinceMs {
		return "", false
	}
	if !t.print {
		return "", true
	}
	if unixMs == 0 {
		return fmt.Sprintf("%-*s", len(t.text(0)), "-"), true
	}
	return t.text(unixMs), true
}

// text returns a time and a space.
func (t timing) text(unixMs int64) string {
	return localtime.Of(time.UnixMilli(unixMs).UTC().Format(time.RFC3339), t.zone, unixMs) + " "
}
