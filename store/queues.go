package store

import (
	"errors"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what is kept of the queues: the one description that a leader took last. Which revision may follow
// which the leader decides before it writes; no other process ever does.

func judgeQueues(stored topology.Token, c *actors.Change) judged {
	out := judgeSingle(stored, c.Queues)
	out.queues = out.single
	return out
}

// FoundQueues takes the row of the description: the write that made it.
func (d *Draft) FoundQueues(row Row) error { return d.tree.found(row) }

// QueuesRow takes the whole row (epoch, counter, record).
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

// Queues adds the description of the queues, or that it could not be read.
func (l *Living) Queues(record *messages.QueuesRecord, err error) {
	if err != nil {
		l.loaded.Damaged = append(l.loaded.Damaged, actors.Damaged{Queues: true, What: whatIsWrong(err)})
		return
	}
	l.loaded.Queues = record
}

// Queues is the check of the description of the queues.
var Queues = []Check{{"epoch, counter, record", "queues", checkQueues}}

func checkQueues(row Row) error {
	bad, err := readSingle[[]byte](row, "queues", new(messages.QueuesRecord))
	return errors.Join(err, bad)
}
