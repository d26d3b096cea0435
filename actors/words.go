package actors

import (
	"strconv"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file owns the texts that the leader and the node share.

// WordOf returns the name of an enumeration value in plain words.
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

// Counted returns a count with its noun, such as "2 nodes".
func Counted(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// GraceOf returns the time between a task's stop signal and its kill.
func GraceOf(spec *messages.JobSpec, c Constants) time.Duration {
	if ms := spec.GetStop().GetGraceMs(); ms > 0 {
		return Millis(ms)
	}
	return c.StopGrace
}

// Millis converts milliseconds of messages and records into a duration.
func Millis(ms int64) time.Duration { return time.Duration(ms) * time.Millisecond }

// CopyOf returns a copy of a message that the caller may change.
func CopyOf[M proto.Message](m M) M { return proto.Clone(m).(M) }
