package main

import (
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/yi-json/synapse/messages"
)

// This file owns what a command may write: visible characters, the ends of its lines, and its own colours. What a job's
// own processes write goes past it.

// quoting writes out what else comes, as \u001b, so that no word of a job, a node or the scheduler steers a terminal,
// whatever command shows it. The escapes are those of JSON, and of quoted YAML.
type quoting struct {
	mu      sync.Mutex // a command may write from several goroutines
	to      io.Writer
	colours *bool  // nil, or whether tables are painted
	rest    []byte // the beginning of a character that has yet to come whole
}

// ownColours are what tables are painted with.
var ownColours = regexp.MustCompile(`\x1b\[(?:0|3[1-6])m`)

// Write takes all of it, or fails.
func (q *quoting) Write(data []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	text := append(q.rest, data...)
	whole := len(text)
	for back := 1; back < utf8.UTFMax && back <= len(text); back++ {
		if at := len(text) - back; utf8.RuneStart(text[at]) {
			if !utf8.FullRune(text[at:]) {
				whole = at
			}
			break
		}
	}
	q.rest = append([]byte(nil), text[whole:]...)
	out := string(text[:whole])
	if q.colours != nil && *q.colours {
		out = visible(out)
	} else {
		out = messages.Lines(out)
	}
	if _, err := io.WriteString(q.to, out); err != nil {
		return 0, err
	}
	return len(data), nil
}

// visible is text with what steers written out, but for the ends of lines and our own colours.
func visible(text string) string {
	if !ownColours.MatchString(text) {
		return messages.Lines(text)
	}
	var out strings.Builder
	from := 0
	for _, own := range ownColours.FindAllStringIndex(text, -1) {
		out.WriteString(messages.Lines(text[from:own[0]]))
		out.WriteString(text[own[0]:own[1]])
		from = own[1]
	}
	out.WriteString(messages.Lines(text[from:]))
	return out.String()
}
