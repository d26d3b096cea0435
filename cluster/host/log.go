package host

import (
	"io"
	"log"
	"sync/atomic"

	"github.com/yi-json/synapse/actors"
)

// Log implements actors.Log: it writes one line for each event, with its time. The words that users know are in the
// lines themselves.
type Log struct {
	lines *log.Logger
	debug atomic.Bool
}

// NewLog makes a log that writes to a stream, with debug lines only if debug is set.
func NewLog(to io.Writer, debug bool) *Log {
	l := &Log{lines: log.New(to, "", log.LstdFlags|log.Lmicroseconds)}
	l.debug.Store(debug)
	return l
}

// SetDebug turns debug lines on or off.
func (l *Log) SetDebug(debug bool) { l.debug.Store(debug) }

// Info writes a line.
func (l *Log) Info(format string, args ...any) { l.lines.Printf(format, args...) }

// Debug writes a line, if debug lines are wanted.
func (l *Log) Debug(format string, args ...any) {
	if l.debug.Load() {
		l.lines.Printf(format, args...)
	}
}

// Warn writes a warning.
func (l *Log) Warn(format string, args ...any) { l.Info(actors.TagWarn+format, args...) }

// Error writes an error.
func (l *Log) Error(format string, args ...any) { l.Info(actors.TagError+format, args...) }
