package show

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file owns the layout of a long description: a name, then what it is.

type page struct {
	w      io.Writer
	indent string
	err    error
}

const nameWidth = 14

func (p *page) write(s string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, s)
	}
}

// line leaves out what there is nothing to say about. What others wrote must not
// reach the terminal as commands.
func (p *page) line(name, value string) {
	lines := strings.Split(strings.TrimSpace(value), "\n")
	for i := range lines {
		lines[i] = oneLine(lines[i])
	}
	// Further lines of a value stand under its first.
	p.painted(name, strings.Join(lines, "\n"+strings.Repeat(" ", nameWidth)))
}

// painted is a line of ours, colours and all.
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

// table indents a table under its section.
func (p *page) table(write func(io.Writer) error) {
	var b bytes.Buffer
	if p.err == nil {
		p.err = write(&b)
	}
	for line := range strings.Lines(b.String()) {
		p.write(p.indent + line)
	}
}

// when is a moment, and how long ago that is.
func when(ms, nowMs int64) string {
	if ms == 0 {
		return ""
	}
	return stamp(ms) + ", " + age(ms, nowMs) + " ago"
}

// ahead is a moment that may be to come.
func ahead(ms, nowMs int64) string {
	if ms > nowMs {
		return stamp(ms) + ", in " + messages.Span(ms-nowMs)
	}
	return stamp(ms)
}

// several writes a list: its names, an object of this kind, or a table.
func several[T, R any](w io.Writer, s Style, kind string, columns []column[R], list []T,
	id func(T) string, object func(T) any, row func(T) R) error {
	if s.names() {
		return ids(w, list, id)
	}
	if s.Format == "json" || s.Format == "yaml" {
		return document(w, s.Format, listObject{"synapse/v1", kind, each(list, object)})
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
