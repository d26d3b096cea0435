package mirror

import (
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns which of the jobs that have ended are still shown: the newest ones, within a bound of their number and
// one of their bytes. The others are in the store.

// finished holds finished jobs without outstanding evidence.
type finished struct {
	order ordered[finishedJob] // by time and id, the oldest first
	bytes int
}

type finishedJob struct {
	id    string
	bytes int
}

// finishedKey orders finished jobs by time; the id makes it unique.
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

// dropOldest drops the oldest of them, and returns its id. There must be one.
func (f *finished) dropOldest() string {
	key, one := f.order.first()
	f.drop(key)
	return one.id
}

// isOver reports whether there are more than there may be. The newest one may always stay, however large it is.
func (f *finished) isOver(c *actors.Constants) bool {
	return f.len() > c.MirrorFinished || f.len() > 1 && f.bytes > c.MirrorBytes
}

// wouldBeOver reports whether there would be with one more.
func (f *finished) wouldBeOver(s *messages.JobStatus, c *actors.Constants) bool {
	return f.len() >= c.MirrorFinished || f.bytes+messages.Size(s) > c.MirrorBytes
}
