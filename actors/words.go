package actors

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file owns what a leader and a worker put in the same words, and read in the same way.

// WordOf is a value of an enumeration as people say it.
func WordOf(name, prefix string) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, prefix)), "_", " ")
}

// Because returns the detail as a suffix for an event, or nothing if there is no detail.
func Because(detail string) string {
	if detail == "" {
		return ""
	}
	return ": " + detail
}

// Counted is a number of things.
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// GraceOf is how long a task has between being asked to end and being killed.
func GraceOf(spec *messages.JobSpec, c Constants) time.Duration {
	if ms := spec.GetStop().GetGraceMs(); ms > 0 {
		return Millis(ms)
	}
	return c.StopGrace
}

// Millis is a duration as messages and records have it.
func Millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// CopyOf is a message that may be changed.
func CopyOf[M proto.Message](m M) M { return proto.Clone(m).(M) }
