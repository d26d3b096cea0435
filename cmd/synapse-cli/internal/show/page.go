package show

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file formats a detailed description: names and values.

type page struct {
	w      io.Writer
	s      Style
	indent string
	err    error
}

const nameWidth = 14

func (p *page) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// line prints a name and a value, unless the value is empty. Control characters in the value are escaped.
func (p *page) line(name, value string) {
	lines := strings.Split(strings.TrimSpace(value), "\n")
	for i := range lines {
		lines[i] = oneLine(lines[i])
	}
	// Further lines of a value are aligned with its first line.
	p.painted(name, strings.Join(lines, "\n"+strings.Repeat(" ", nameWidth)))
}

// timed prints a name and a value with times, which are shown in the time zone of the user. Values that users have
// chosen, such as a command, use line instead.
func (p *page) timed(name, value string) { p.line(name, p.s.local(value)) }

// painted prints a line that may contain colours.
func (p *page) painted(name, value string) {
	if value == "" {
		return
	}
	p.write(fmt.Sprintf("%s%-*s%s\n", p.indent, nameWidth-len(p.indent), name+":", value))
}

func (p *page) section(name, value string) {
	p.indent = ""
	p.write("\n" + strings.TrimSpace(name+" "+value) + "\n")
	p.indent = "  "
}

// table prints a table indented below its section.
func (p *page) table(write func(io.Writer) error) {
	var b bytes.Buffer
	if p.err == nil {
		p.err = write(&b)
	}
	for line := range strings.Lines(b.String()) {
		p.write(p.indent + line)
	}
}

// when formats a past time and its age.
func when(ms, nowMs int64) string {
	if ms == 0 {
		return ""
	}
	return stamp(ms) + ", " + age(ms, nowMs) + " ago"
}

// ahead formats a time that may be in the future.
func ahead(ms, nowMs int64) string {
	if ms > nowMs {
		return stamp(ms) + ", in " + messages.Span(ms-nowMs)
	}
	return stamp(ms)
}

// several prints a list: names, an object of this kind, or a table.
func several[T, R any](w io.Writer, s Style, kind string, columns []column[R], list []T,
	id func(T) string, object func(T) any, row func(T) R) error {
	if s.names() {
		return ids(w, list, id)
	}
	switch {
	case s.Format == "json" || s.Format == "yaml" || s.isJSONPath():
		return document(w, s.Format, listObject{"synapse/v1", kind, each(list, object)})
	case s.isTemplate():
		return customTable(w, s, each(list, object))
	}
	return table(w, s, columns, each(list, row))
}

func each[T, R any](list []T, do func(T) R) []R {
	out := make([]R, len(list))
	for i, one := range list {
		out[i] = do(one)
	}
	return out
}

func ids[T any](w io.Writer, list []T, id func(T) string) error {
	for _, one := range list {
		if _, err := io.WriteString(w, id(one)+"\n"); err != nil {
			return err
		}
	}
	return nil
}
