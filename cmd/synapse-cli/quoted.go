package main

import (
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/yi-json/synapse/messages"
)

// This file escapes the output of commands. Only printable characters, line ends and the program's own colours
// pass. The output of jobs bypasses it.

// quoting escapes all other characters, as \u001b. The text of a job, a node or the scheduler therefore cannot
// control the terminal in any command. The escapes are those of JSON and of quoted YAML.
type quoting struct {
	mu      sync.Mutex // several goroutines may write
	to      io.Writer
	colours *bool  // nil, or whether tables have colours
	rest    []byte // start of an incomplete character
}

// ownColours matches the colours of tables.
var ownColours = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`\x1b\[(?:0|3[1-6])m`)
})

// Write writes all data or fails.
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

// visible escapes control characters in a text, except line ends and the program's own colours.
func visible(text string) string {
	if !ownColours().MatchString(text) {
		return messages.Lines(text)
	}
	var out strings.Builder
	from := 0
	for _, own := range ownColours().FindAllStringIndex(text, -1) {
		out.WriteString(messages.Lines(text[from:own[0]]))
		out.WriteString(text[own[0]:own[1]])
		from = own[1]
	}
	out.WriteString(messages.Lines(text[from:]))
	return out.String()
}
