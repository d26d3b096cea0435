package sqlite

import (
	"database/sql"
	"errors"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the table of the policy record, and the notes of attempts that it does not include. Package store
// describes their purpose.

const (
	policyWriter = "SELECT epoch, counter FROM policy"
	insertPolicy = "INSERT OR ROLLBACK INTO policy (epoch, counter, record, one) VALUES (?, ?, ?, 1)"
	updatePolicy = "UPDATE OR ROLLBACK policy SET epoch = ?, counter = ?, record = ?"
	note         = "INSERT OR ROLLBACK INTO unlearned (epoch, counter) VALUES (?, ?)"
	unnote       = "DELETE FROM unlearned WHERE epoch = ? AND counter = ?"
	unnoteJob    = "DELETE FROM unlearned WHERE (epoch, counter) IN (SELECT epoch, counter FROM attempt WHERE job = ?)"

	policyRecord = "SELECT epoch, counter, record FROM policy"
	// CROSS JOIN keeps the order of the tables, so that the other attempts are not scanned.
	unlearnedJobs = `SELECT id, record FROM job WHERE record IS NOT NULL AND id IN
		(SELECT a.job FROM unlearned u CROSS JOIN attempt a ON a.epoch = u.epoch AND a.counter = u.counter)`
	unlearnedAttempts = `SELECT a.job, a.epoch, a.counter, a.record FROM unlearned u
		CROSS JOIN attempt a ON a.epoch = u.epoch AND a.counter = u.counter ORDER BY u.epoch, u.counter`
)

// putPolicy writes the policy record and the notes.
func (w *writer) putPolicy(rows *store.Rows) error {
	for _, t := range rows.Ends {
		if err := w.change(1, note, int64(t.Epoch), int64(t.Counter)); err != nil {
			return err
		}
	}
	if err := w.putSingle(rows.Policy, insertPolicy, updatePolicy); err != nil {
		return err
	}
	for _, t := range rows.Learned {
		if _, err := w.exec(unnote, int64(t.Epoch), int64(t.Counter)); err != nil {
			return err
		}
	}
	return nil
}

func tokenKeys(tokens []topology.Token) []any {
	keys := make([]any, 0, 2*len(tokens))
	for _, t := range tokens {
		keys = append(keys, int64(t.Epoch), int64(t.Counter))
	}
	return keys
}

// policyRows reads the policy record, and the attempts that it does not include yet.
func policyRows(tx *sql.Tx, found *store.Living) error {
	policy, job, attempt := store.PolicyRows[sql.RawBytes](found)
	return errors.Join(query(tx, policyRecord, policy), query(tx, unlearnedJobs, job),
		query(tx, unlearnedAttempts, attempt))
}
