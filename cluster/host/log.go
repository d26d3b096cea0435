package host

import (
	"encoding/json"
	"fmt"
	"io"
	"log"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the log of a process, as text or JSON.

// These are the formats of a log.
const (
	TextLog = "text"
	JSONLog = "json"
)

// LogFormats lists the formats.
var LogFormats = []string{TextLog, JSONLog}

// Log implements actors.Log with one line for each event, with its time. The words that users know are in the lines. In
// JSON, each line also has fields for the job, attempt and node. The log finds them among the arguments, so no caller
// has to repeat them.
type Log struct {
	*sink
	about about
}

// sink is the output of one process.
type sink struct {
	text  *log.Logger // nil: JSON
	mu    sync.Mutex
	to    io.Writer
	debug atomic.Bool
	epoch atomic.Uint64
	now   func() time.Time
}

// about holds the subject of a log line.
type about struct {
	Epoch   uint64 `json:"epoch,omitempty"`
	Node    string `json:"node,omitempty"`
	Job     string `json:"job,omitempty"`
	Attempt string `json:"attempt,omitempty"`
}

// NewLog returns a log that writes text, with debug lines only if debug is set.
func NewLog(to io.Writer, debug bool) *Log { return NewLogIn(TextLog, to, debug) }

// NewLogIn returns a log in one of LogFormats.
func NewLogIn(format string, to io.Writer, debug bool) *Log {
	l := &Log{sink: &sink{to: to, now: time.Now}}
	if format != JSONLog {
		l.text = log.New(to, "", log.LstdFlags|log.Lmicroseconds)
	}
	l.debug.Store(debug)
	return l
}

// Fields reports whether lines have fields in addition to their text.
func (l *Log) Fields() bool { return l.text == nil }

// With returns a log whose lines carry a field: a node, a job or an attempt.
func (l *Log) With(field, value string) actors.Log { return l.of(field, value) }

// On returns the log of a node agent.
func (l *Log) On(node string) *Log { return l.of(actors.FieldNode, node) }

func (l *Log) of(field, value string) *Log {
	if l.text != nil {
		return l
	}
	more := *l
	more.about.set(field, value)
	return &more
}

func (a *about) set(field, value string) {
	value = messages.OneLine(value)
	switch field {
	case actors.FieldNode:
		a.Node = value
	case actors.FieldJob:
		a.Job = value
	case actors.FieldAttempt:
		a.Attempt = value
	}
}

// SetEpoch sets the leader's epoch for all later lines of the process.
func (l *Log) SetEpoch(epoch uint64) { l.epoch.Store(epoch) }

// SetDebug turns debug lines on or off.
func (l *Log) SetDebug(debug bool) { l.debug.Store(debug) }

// Info writes a line.
func (l *Log) Info(format string, args ...any) { l.write("info", "", format, args) }

// Debug writes a line if debug lines are enabled.
func (l *Log) Debug(format string, args ...any) {
	if l.debug.Load() {
		l.write("debug", "", format, args)
	}
}

// Warn writes a warning.
func (l *Log) Warn(format string, args ...any) { l.write("warn", actors.TagWarn, format, args) }

// Error writes an error.
func (l *Log) Error(format string, args ...any) { l.write("error", actors.TagError, format, args) }

func (l *Log) write(level, tag, format string, args []any) {
	if l.text != nil {
		l.text.Print(words(tag+format, args))
		return
	}
	line := struct {
		Time    string `json:"time"`
		Level   string `json:"level"`
		Message string `json:"message"`
		about
	}{l.now().UTC().Format("2006-01-02T15:04:05.000000Z"), level, words(format, args), l.about}
	line.Epoch = l.epoch.Load()
	line.find(format, args)
	text, err := json.Marshal(line)
	if err != nil {
		return // strings and a number can always be encoded
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.to.Write(append(text, '\n'))
}

// words formats a line. Users choose some of the arguments, for example as a job's name, and must not be able to begin
// a new line. Only the format and stacks, which are byte slices, may contain line breaks.
func words(format string, args []any) string {
	safe := make([]any, len(args))
	verbs := aVerb.FindAllString(strings.ReplaceAll(format, "%%", ""), -1)
	for i, arg := range args {
		switch v := arg.(type) {
		case nil, bool, int, int32, int64, uint, uint32, uint64, float64, time.Duration:
			safe[i] = arg
		case []byte:
			safe[i] = []byte(messages.Lines(string(v)))
		default:
			safe[i] = quoted{arg}
		}
		if i < len(verbs) && verbs[i] == "%T" { // the verb does not call a Formatter
			safe[i] = quoted{fmt.Sprintf("%T", arg)}
		}
	}
	return messages.Lines(fmt.Sprintf(strings.ReplaceAll(format, "%T", "%s"), safe...))
}

// quoted formats a value on one line, for any verb.
type quoted struct{ value any }

// Format writes the value.
func (q quoted) Format(f fmt.State, verb rune) {
	_, _ = io.WriteString(f, messages.OneLine(fmt.Sprintf(fmt.FormatString(f, verb), q.value)))
}

// aVerb matches a verb of a format and the word before it: `Job %s`, `JobID=%s`, `ID=%s`.
var aVerb = regexp.MustCompile(`(?:(\w+)[ =])?%[-+# 0-9.]*[a-zA-Z]`)

// wordFields maps the word before a verb to the field that its argument names.
var wordFields = map[string]string{
	"job": actors.FieldJob, "jobid": actors.FieldJob, "node": actors.FieldNode, "attempt": actors.FieldAttempt,
	"machine": actors.FieldNode, "id": actors.FieldNode,
}

// find adds the subject of a line from its arguments: by the type of an argument, or for text by the word before its
// verb. The first argument of each kind counts.
func (a *about) find(format string, args []any) {
	var found about
	take := func(field, value string) {
		if first := (map[string]string{
			actors.FieldNode: found.Node, actors.FieldJob: found.Job, actors.FieldAttempt: found.Attempt,
		})[field]; first == "" {
			found.set(field, value)
		}
	}
	verbs := aVerb.FindAllStringSubmatch(strings.ReplaceAll(format, "%%", ""), -1)
	for i, arg := range args {
		switch v := arg.(type) {
		case topology.JobID:
			take(actors.FieldJob, string(v))
		case topology.NodeID:
			take(actors.FieldNode, string(v))
		case topology.Token:
			take(actors.FieldAttempt, v.String())
		case topology.TaskKey:
			take(actors.FieldAttempt, v.Token.String())
		case string:
			if i < len(verbs) {
				take(wordFields[strings.ToLower(verbs[i][1])], v)
			}
		}
	}
	for field, value := range map[string]string{ //order: each is another field
		actors.FieldNode: found.Node, actors.FieldJob: found.Job, actors.FieldAttempt: found.Attempt,
	} {
		if value != "" {
			a.set(field, value)
		}
	}
}
