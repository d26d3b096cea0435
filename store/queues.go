package store

import (
	"errors"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the stored queue configuration: the last one that a leader accepted. The leader decides before the
// write which revision may follow which. No other process writes it.

func judgeQueues(stored topology.Token, c *actors.Change) judged {
	out := judgeSingle(stored, c.Queues)
	out.queues = out.single
	return out
}

// FoundQueues reads the row of the configuration: the write that created it.
func (d *Draft) FoundQueues(row Row) error { return d.tree.found(row) }

// QueuesRow reads the complete row (epoch, counter, record).
func QueuesRow[B ~[]byte](l *Living) func(Row) error {
	return func(row Row) error {
		record := new(messages.QueuesRecord)
		bad, err := readSingle[B](row, "queues", record)
		if err == nil {
			l.Queues(record, bad)
		}
		return err
	}
}

// Queues adds the configuration, or the error if it is unreadable.
func (l *Living) Queues(record *messages.QueuesRecord, err error) {
	if err != nil {
		l.loaded.Damaged = append(l.loaded.Damaged, actors.Damaged{Queues: true, What: whatIsWrong(err)})
		return
	}
	l.loaded.Queues = record
}

// Queues lists the check of the queue configuration.
var Queues = []Check{{"epoch, counter, record", "queues", checkQueues}}

func checkQueues(row Row) error {
	bad, err := readSingle[[]byte](row, "queues", new(messages.QueuesRecord))
	return errors.Join(err, bad)
}
