package mirror

import (
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns the set of finished jobs that the Mirror still shows: the newest ones, up to a limit in number and a
// limit in bytes. Older jobs are read from the store.

// finished holds the finished jobs that have no unconfirmed allocation.
type finished struct {
	order ordered[finishedJob] // by finish time and ID, oldest first
	bytes int
}

type finishedJob struct {
	id    string
	bytes int
}

// finishedKey returns a key that sorts finished jobs by time. The ID makes the key unique.
func finishedKey(s *messages.JobStatus) string {
	return fmt.Sprintf("%016x %s", max(s.GetRecord().GetFinishedUnixMs(), 0), s.GetRecord().GetId())
}

func (f *finished) len() int { return f.order.len() }

func (f *finished) add(key string, s *messages.JobStatus) {
	f.drop(key)
	one := finishedJob{s.GetRecord().GetId(), messages.Size(s)}
	f.order.put(key, one)
	f.bytes += one.bytes
}

func (f *finished) drop(key string) {
	if one, ok := f.order.get(key); ok {
		f.order.remove(key)
		f.bytes -= one.bytes
	}
}

// dropOldest removes the oldest job and returns its ID. The set must not be empty.
func (f *finished) dropOldest() string {
	key, one := f.order.first()
	f.drop(key)
	return one.id
}

// isOver reports whether the set exceeds a limit. The newest job always stays, whatever its size.
func (f *finished) isOver(c *actors.Constants) bool {
	return f.len() > c.MirrorFinished || f.len() > 1 && f.bytes > c.MirrorBytes
}

// wouldBeOver reports whether the set would exceed a limit after adding this job.
func (f *finished) wouldBeOver(s *messages.JobStatus, c *actors.Constants) bool {
	return f.len() >= c.MirrorFinished || f.bytes+messages.Size(s) > c.MirrorBytes
}
