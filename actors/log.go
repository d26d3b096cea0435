package actors

// This file owns the log interface of the actors.

// Log writes lines for operators. The lines use the words that users know.
type Log interface {
	Info(format string, args ...any)
	Debug(format string, args ...any)
	Warn(format string, args ...any)  // a problem that stops nothing
	Error(format string, args ...any) // something was refused or lost
}

// These are the fields of a line, for programs that read logs.
const (
	FieldNode    = "node"
	FieldJob     = "job"
	FieldAttempt = "attempt"
)

// Fielded is a log that can write fields in addition to the text of a line. It writes them if Fields returns true.
type Fielded interface {
	Fields() bool
	With(field, value string) Log
	// SetEpoch sets the leader's epoch for all later lines of the process.
	SetEpoch(epoch uint64)
}

// About returns a log whose lines carry a field. The function value is called only if the log writes fields.
func About(l Log, field string, value func() string) Log {
	if f, is := l.(Fielded); is && f.Fields() {
		return f.With(field, value())
	}
	return l
}

// UnderEpoch sets the leader's epoch for all later lines, if the log writes fields.
func UnderEpoch(l Log, epoch uint64) {
	if f, is := l.(Fielded); is {
		f.SetEpoch(epoch)
	}
}

// Users know some lines by these tags. The host writes the tags, and no actor does.
const (
	TagWarn  = "[WARN] "
	TagError = "[ERROR] "
	TagCalls = "[GRPC] " // requests of nodes and clients
)

// Tagged is a log whose lines begin with a tag.
type Tagged struct {
	To  Log
	Tag string
}

// Info writes a line.
func (t Tagged) Info(format string, args ...any) { t.To.Info(t.Tag+format, args...) }

// Debug writes a line for debugging.
func (t Tagged) Debug(format string, args ...any) { t.To.Debug(t.Tag+format, args...) }

// Warn writes a warning.
func (t Tagged) Warn(format string, args ...any) { t.To.Warn(t.Tag+format, args...) }

// Error writes an error.
func (t Tagged) Error(format string, args ...any) { t.To.Error(t.Tag+format, args...) }

// NoLog writes nothing.
type NoLog struct{}

// Info writes nothing.
func (NoLog) Info(string, ...any) {}

// Debug writes nothing.
func (NoLog) Debug(string, ...any) {}

// Warn writes nothing.
func (NoLog) Warn(string, ...any) {}

// Error writes nothing.
func (NoLog) Error(string, ...any) {}
