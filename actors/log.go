package actors

// This file owns how actors tell operators something.

// Log writes lines for operators. The words users know are in these lines.
type Log interface {
	Info(format string, args ...any)
	Debug(format string, args ...any)
	Warn(format string, args ...any)  // something is not as it should be, and all goes on
	Error(format string, args ...any) // something was refused or lost
}

// The fields of a line, for whoever reads logs by program.
const (
	FieldNode    = "node"
	FieldJob     = "job"
	FieldAttempt = "attempt"
)

// Fielded is a log that can show what its lines are about beside their words, and does if Fields says so.
type Fielded interface {
	Fields() bool
	With(field, value string) Log
	// SetEpoch says under which leader the process's lines are written from now on.
	SetEpoch(epoch uint64)
}

// About is a log whose lines are about something, where that is shown; the value is asked for only then.
func About(l Log, field string, value func() string) Log {
	if f, is := l.(Fielded); is && f.Fields() {
		return f.With(field, value())
	}
	return l
}

// UnderEpoch has a process's lines say which leader they are written under, where that is shown.
func UnderEpoch(l Log, epoch uint64) {
	if f, is := l.(Fielded); is {
		f.SetEpoch(epoch)
	}
}

// The tags by which users know some of the lines. The host writes them, and no actor.
const (
	TagWarn  = "[WARN] "
	TagError = "[ERROR] "
	TagCalls = "[GRPC] " // what machines and clients ask for
)

// Tagged is a log of which every line begins with a tag.
type Tagged struct {
	To  Log
	Tag string
}

// Info writes a line.
func (t Tagged) Info(format string, args ...any) { t.To.Info(t.Tag+format, args...) }

// Debug writes a line for who debugs.
func (t Tagged) Debug(format string, args ...any) { t.To.Debug(t.Tag+format, args...) }

// Warn writes a warning.
func (t Tagged) Warn(format string, args ...any) { t.To.Warn(t.Tag+format, args...) }

// Error writes an error.
func (t Tagged) Error(format string, args ...any) { t.To.Error(t.Tag+format, args...) }

// NoLog says nothing.
type NoLog struct{}

// Info says nothing.
func (NoLog) Info(string, ...any) {}

// Debug says nothing.
func (NoLog) Debug(string, ...any) {}

// Warn says nothing.
func (NoLog) Warn(string, ...any) {}

// Error says nothing.
func (NoLog) Error(string, ...any) {}
