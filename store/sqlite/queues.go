package sqlite

import "github.com/yi-json/synapse/store"

// This file owns the table of the queue configuration. Package store describes its purpose.

const (
	queuesWriter = "SELECT epoch, counter FROM queues"
	insertQueues = "INSERT OR ROLLBACK INTO queues (epoch, counter, record, one) VALUES (?, ?, ?, 1)"
	updateQueues = "UPDATE OR ROLLBACK queues SET epoch = ?, counter = ?, record = ?"
	queuesRecord = "SELECT epoch, counter, record FROM queues"
)

// putSingle writes a record of which there is only one, unless row is nil.
func (w *writer) putSingle(row *store.SingleRow, insert, update string) error {
	if row == nil {
		return nil
	}
	text := update
	if row.Insert {
		text = insert
	}
	return w.change(1, text, int64(row.WrittenBy.Epoch), int64(row.WrittenBy.Counter), row.Sealed)
}
