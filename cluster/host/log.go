package host

import (
	"io"
	"log"
)

// Log implements actors.Log: one line for each thing worth telling, with its
// time. The words that users know are in the lines themselves.
type Log struct {
	lines *log.Logger
	debug bool
}

// NewLog writes to a stream; debug lines only where they are wanted.
func NewLog(to io.Writer, debug bool) *Log {
	return &Log{lines: log.New(to, "", log.LstdFlags|log.Lmicroseconds), debug: debug}
}

// Info writes a line.
func (l *Log) Info(format string, args ...any) { l.lines.Printf(format, args...) }

// Debug writes a line where debug lines are wanted.
func (l *Log) Debug(format string, args ...any) {
	if l.debug {
		l.lines.Printf(format, args...)
	}
}
