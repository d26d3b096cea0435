package sim

import (
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/yi-json/synapse/messages"
)

// This file shows a run to developers: log lines, the trace of steps, and the last events before a violation. A line is
// formatted only when it is read.

// logLine holds a line of the log that may never be formatted.
type logLine struct {
	at      instant
	address string
	serial  int
	format  string
	args    []any
}

const recentLines = 512

func (l logLine) String() string {
	return fmt.Sprintf("%s %s#%d %s", clockFace(l.at), l.address, l.serial, fmt.Sprintf(l.format, l.args...))
}

func clockFace(at instant) string {
	d := at.duration()
	return fmt.Sprintf("%02d:%02d:%09.6f", int(d.Hours()), int(d.Minutes())%60, (d % time.Minute).Seconds())
}

// logged records a line of the actors' log.
func (w *World) logged(p *process, format string, args []any) {
	w.record(logLine{w.engine.now, p.address, p.serial, format, args})
}

// note records a line of the world about a process.
func (w *World) note(p *process, format string, args ...any) {
	w.record(logLine{w.engine.now, p.address, p.serial, "*** " + format, args})
}

// say records a line of the world.
func (w *World) say(format string, args ...any) {
	w.record(logLine{w.engine.now, "world", 0, "*** " + format, args})
}

func (w *World) record(l logLine) {
	if w.opts.Lines != nil {
		fmt.Fprintln(w.opts.Lines, l)
	}
	if w.notable != nil {
		w.notable(l)
	}
	if len(w.recent) < recentLines {
		w.recent = append(w.recent, l)
		return
	}
	w.recent[w.recentAt] = l
	w.recentAt = (w.recentAt + 1) % recentLines
}

// Recent returns the last lines before now, oldest first.
func (w *World) Recent() []string {
	var out []string
	for i := range w.recent {
		out = append(out, w.recent[(w.recentAt+i)%len(w.recent)].String())
	}
	return out
}

// OnLine passes every formatted log line and its writer to a script.
func (w *World) OnLine(told func(address, text string)) {
	w.notable = func(l logLine) { told(l.address, fmt.Sprintf(l.format, l.args...)) }
}

// traceTo writes one line per step.
func (w *World) traceTo(out io.Writer) {
	if out == nil {
		return
	}
	w.engine.watch = func(m *mailbox, message any) {
		fmt.Fprintf(out, "%s %s#%d/%s %s\n", clockFace(w.engine.now), m.proc.address, m.proc.serial, m.self.Id,
			describe(unwrapped(message)))
	}
}

// address matches the address of a value in memory, as %v shows it.
var address = regexp.MustCompile(`\b0x[0-9a-f]{6,}\b`)

// describe shows a message on one line, which is the same in all runs and builds.
func describe(message any) string {
	text := ""
	if p, is := message.(messages.Message); is {
		text = prototext.MarshalOptions{}.Format(p)
	} else {
		text = address.ReplaceAllString(fmt.Sprintf("%+v", message), "0x")
	}
	return nameOf(message) + " " + strings.Join(strings.Fields(text), " ")
}
