package policy

// This file owns the order of the queue as a value, for whoever counts who is ahead of whom elsewhere.

import (
	"encoding/binary"
	"math"
	"strconv"
	"strings"
)

// Turn is where a waiting job stands in the queue: those with a lesser turn are ahead of it. No two jobs have the same.
type Turn string

// turn writes what the order goes by so that texts compare as jobs do: priority, then arrival, then id.
func (w *Waiting) turn() Turn {
	b := make([]byte, 0, 14+len(w.Job))
	array, index := string(w.Job), ""
	if at := strings.LastIndexByte(array, '_'); at > 0 {
		array, index = array[:at], array[at:]
	}
	b = binary.BigEndian.AppendUint32(b, uint32(^w.Priority)^(1<<31)) // higher first
	b = binary.BigEndian.AppendUint64(b, uint64(w.Arrived)^(1<<63))
	b = append(b, array...)
	if index != "" { // of elements of one array the shorter index is the lesser
		b = append(b, '_', byte(len(index)))
	}
	return Turn(append(b, index...))
}

// LastTurn is behind all jobs of a priority that wait now.
func LastTurn(priority int32) Turn {
	return (&Waiting{Priority: priority, Arrived: math.MaxInt64}).turn()
}

// Standing is where a job stands among those that wait.
type Standing struct {
	// Ahead counts the jobs before it in the queue, of Waiting jobs in all.
	Ahead, Waiting int
}

// String ends an answer. A job that waits alone has no place in a queue worth a word.
func (s Standing) String() string {
	switch {
	case s.Waiting < 2:
		return ""
	case s.Ahead == 0:
		return " · it is the first of " + strconv.Itoa(s.Waiting) + " waiting jobs"
	case s.Ahead == 1:
		return " · 1 of " + strconv.Itoa(s.Waiting) + " waiting jobs is ahead of it"
	}
	return " · " + strconv.Itoa(s.Ahead) + " of " + strconv.Itoa(s.Waiting) + " waiting jobs are ahead of it"
}
