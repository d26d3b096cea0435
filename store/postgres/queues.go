package postgres

import (
	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
)

// This file owns the table of the queue configuration. Package store describes its purpose.

const (
	queuesWriter = "SELECT epoch, counter FROM synapse.queues"
	insertQueues = "INSERT INTO synapse.queues (epoch, counter, record) VALUES ($1, $2, $3)"
	updateQueues = "UPDATE synapse.queues SET epoch = $1, counter = $2, record = $3"
	queuesRecord = "SELECT epoch, counter, record FROM synapse.queues"
)

// putSingle queues a record of which there is only one, unless row is nil.
func putSingle(batch *pgx.Batch, row *store.SingleRow, insert, update string) {
	if row == nil {
		return
	}
	text := update
	if row.Insert {
		text = insert
	}
	exactly(batch, 1, text, int64(row.WrittenBy.Epoch), int64(row.WrittenBy.Counter), row.Sealed)
}
