package store

import (
	"errors"
	"fmt"

	"github.com/yi-json/synapse/topology"
)

// This file owns the check of each row of a database. Every store has the same columns, but the names of tables differ.

// Row is a row of a database.
type Row interface{ Scan(into ...any) error }

// Check is a query over a table with the check of its rows.
type Check struct {
	columns, from string
	row           func(Row) error
}

// Records lists the checks of the records of jobs, attempts and nodes.
var Records = []Check{
	{"id, revision, state, finished_unix_ms, queue, record", "job WHERE record IS NOT NULL", checkJob},
	{"job, epoch, counter, ended, owes, record", "attempt", checkAttempt},
	{"id, record", "node", checkNode},
}

// Scripts lists the checks of scripts, and of the jobs that name them.
var Scripts = []Check{
	{"digest, text", "script", checkScript},
	{"id, script, record", "job WHERE script <> '' AND record IS NOT NULL", checkNamed},
}

// Policies lists the check of the statistics record.
var Policies = []Check{{"epoch, counter, record", "policy", checkPolicy}}

// Query returns the statement that reads the rows. The prefix precedes the tables' names.
func (c *Check) Query(prefix string) string {
	return "SELECT " + c.columns + " FROM " + prefix + c.from
}

// Row checks one row.
func (c *Check) Row(row Row) error { return c.row(row) }

// checkJob compares the record of a job with the other columns.
func checkJob(row Row) error {
	var h Head
	var id topology.JobID
	var queue *string // null if an earlier version wrote the job
	var sealed []byte
	if err := row.Scan(&id, &h.Revision, &h.State, &h.FinishedUnixMs, &queue, &sealed); err != nil {
		return err
	}
	job, err := ReadJob(id, sealed)
	if err != nil {
		return err
	}
	if h.Revision != job.Revision || h.State != job.State || h.FinishedUnixMs != job.FinishedUnixMs ||
		queue != nil && *queue != job.Spec.Queue {
		return differs("job", string(id))
	}
	return nil
}

// checkAttempt compares the record of an attempt with the other columns.
func checkAttempt(row Row) error {
	var job topology.JobID
	var token topology.Token
	var ended, owes bool
	var sealed []byte
	if err := row.Scan(&job, &token.Epoch, &token.Counter, &ended, &owes, &sealed); err != nil {
		return err
	}
	attempt, err := ReadAttempt(job, token, sealed)
	if err != nil {
		return err
	}
	if ended != (attempt.End != nil) || owes != attempt.Owes() {
		return differs("attempt", string(job)+"/"+token.String())
	}
	return nil
}

// checkNode reads the record of a node.
func checkNode(row Row) error {
	_, _, bad, err := scanNode[[]byte](row)
	return errors.Join(err, bad)
}

// checkScript reads a script, and refuses a text that does not match its digest.
func checkScript(row Row) error {
	var digest string
	var text []byte
	if err := row.Scan(&digest, &text); err != nil {
		return err
	}
	return CheckScript(digest, text)
}

// checkNamed compares a job's script with its column, which decides which scripts are kept. A missing script affects
// one job only, so it is not an error of the entire copy.
func checkNamed(row Row) error {
	var id topology.JobID
	var digest string
	var sealed []byte
	if err := row.Scan(&id, &digest, &sealed); err != nil {
		return err
	}
	job, err := ReadJob(id, sealed)
	if err != nil {
		return err
	}
	if job.GetSpec().GetScript().GetDigest() != digest {
		return differs("job", string(id))
	}
	return nil
}

func differs(table, key string) error {
	return fmt.Errorf("table %s, key %q: the columns differ from the record: %w", table, key, ErrDamaged)
}
