package store

import (
	"errors"
	"fmt"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the conversion of database rows into records. Every store has the same columns, but the names of
// tables differ. Each selects the columns in the order that these functions expect. B is the driver's type for bytes
// that are not copied. Decoded records contain copies of everything that they keep.

// ScanJob reads a row with an ID and a record.
func ScanJob[B ~[]byte](row Row) (*messages.JobRecord, error) {
	var id topology.JobID
	var sealed B
	if err := row.Scan(&id, &sealed); err != nil {
		return nil, err
	}
	return ReadJob(id, sealed)
}

// ScanAttempt reads a row with a job, an epoch, a counter and a record.
func ScanAttempt[B ~[]byte](row Row) (*messages.AttemptRecord, error) {
	_, attempt, bad, err := scanAttempt[B](row)
	return attempt, errors.Join(err, bad)
}

// scanAttempt returns a bad record and an unreadable row as different errors.
func scanAttempt[B ~[]byte](row Row) (job topology.JobID, attempt *messages.AttemptRecord, bad, err error) {
	var token topology.Token
	var sealed B
	if err := row.Scan(&job, &token.Epoch, &token.Counter, &sealed); err != nil {
		return "", nil, nil, err
	}
	attempt, bad = ReadAttempt(job, token, sealed)
	return job, attempt, bad, nil
}

// scanNode is the same for a row with a node's ID and its record.
func scanNode[B ~[]byte](row Row) (id topology.NodeID, node *messages.NodeRecord, bad, err error) {
	var sealed B
	if err := row.Scan(&id, &sealed); err != nil {
		return "", nil, nil, err
	}
	node, bad = ReadNode(id, sealed)
	return id, node, bad, nil
}

// LiveRows returns the readers of the rows of jobs (id, owner, record), of attempts and of nodes.
func LiveRows[B ~[]byte](l *Living) (job, attempt, node func(Row) error) {
	job = func(row Row) error {
		var id topology.JobID
		var owner string
		var sealed B
		err := row.Scan(&id, &owner, &sealed)
		if err == nil {
			record, bad := ReadJob(id, sealed)
			l.Job(id, owner, record, bad)
		}
		return err
	}
	attempt = func(row Row) error {
		job, record, bad, err := scanAttempt[B](row)
		if err == nil {
			l.Attempt(job, record, bad)
		}
		return err
	}
	node = func(row Row) error {
		id, record, bad, err := scanNode[B](row)
		if err == nil {
			l.Node(id, record, bad)
		}
		return err
	}
	return job, attempt, node
}

// PastRow reads a row of a finished job: its ID, when it finished, and its record, which is null if it does not match.
// It reports whether to continue.
func PastRow[B ~[]byte](g *Gathering, row Row) (more bool, err error) {
	var at Position
	var sealed B
	if err := row.Scan(&at.Job, &at.FinishedUnixMs, &sealed); err != nil {
		return false, err
	}
	if sealed == nil {
		return g.Look(at, nil, 0), nil
	}
	job, err := ReadJob(at.Job, sealed)
	return g.Read(at, job, err, len(sealed)), nil
}

// FoundJob reads a row of one of Jobs: its head, and whether it was pruned.
func (d *Draft) FoundJob(row Row) error {
	var id topology.JobID
	var h Head
	var pruned bool
	if err := row.Scan(&id, &h.Revision, &h.WrittenBy.Epoch, &h.WrittenBy.Counter, &h.Owner, &h.RequestID,
		&h.Arrival, &h.State, &h.ExitCode, &h.FinishedUnixMs, &pruned); err != nil {
		return err
	}
	if j := d.jobs[id]; pruned {
		j.pruned = true
	} else {
		j.entry, j.known = &jobEntry{head: h}, true
	}
	return nil
}

// Found returns the stored jobs among Jobs.
func (d *Draft) Found() []topology.JobID {
	var found []topology.JobID
	for _, id := range d.Jobs {
		if d.jobs[id].known {
			found = append(found, id)
		}
	}
	return found
}

// FoundRequest reads a row of one of Requests that has created a job: its owner and its ID.
func (d *Draft) FoundRequest(row Row) error {
	var r request
	err := row.Scan(&r.owner, &r.id)
	d.requests[r] = true
	return err
}

// FoundHead reads a row of an attempt of a stored job: its job, its token, whether it has ended and whether exits are
// unconfirmed. The rows must be in the order of their tokens and precede every FoundAttempt.
func (d *Draft) FoundHead(row Row) error {
	var job topology.JobID
	var e attemptEntry
	if err := row.Scan(&job, &e.token.Epoch, &e.token.Counter, &e.ended, &e.owes); err != nil {
		return err
	}
	j := d.jobs[job]
	if j == nil || j.entry == nil {
		return fmt.Errorf("attempt %s: job does not exist: %w", attemptKey(job, e.token), ErrDamaged)
	}
	j.entry.attempts = append(j.entry.attempts, e)
	return nil
}

// FoundAttempt reads a row of one of Tokens. It may belong to a job that no change affects.
func (d *Draft) FoundAttempt(row Row) error {
	var job topology.JobID
	var token topology.Token
	var sealed []byte
	if err := row.Scan(&job, &token.Epoch, &token.Counter, &sealed); err != nil {
		return err
	}
	d.tokens[token] = true
	j := d.jobs[job]
	if j == nil || j.entry == nil {
		return nil
	}
	at, ok := j.entry.find(token)
	if !ok {
		return fmt.Errorf("attempt %s: its job does not list it: %w", attemptKey(job, token), ErrDamaged)
	}
	// An unreadable attempt has no record, so nothing may follow it.
	if _, err := ReadAttempt(job, token, sealed); err == nil {
		j.entry.attempts[at].record = sealed[sealBytes:]
	}
	return nil
}

// FoundNode reads a row of one of Nodes. A first record may replace an unreadable one.
func (d *Draft) FoundNode(row Row) error {
	id, record, _, err := scanNode[[]byte](row)
	if err == nil {
		d.machines[id].record, d.machines[id].known = record, true
	}
	return err
}

// DroppedJob reads a row of one of Drops.
func (d *Draft) DroppedJob(row Row) error {
	var id topology.JobID
	var sealed []byte
	err := row.Scan(&id, &sealed)
	if err == nil {
		_, bad := ReadJob(id, sealed)
		d.read(id, bad)
	}
	return err
}

// DroppedAttempt reads a row of an attempt of one of Drops.
func (d *Draft) DroppedAttempt(row Row) error {
	job, _, bad, err := scanAttempt[[]byte](row)
	if err == nil {
		d.read(job, bad)
	}
	return err
}

// read records whether a record of one of Drops was readable.
func (d *Draft) read(job topology.JobID, bad error) {
	d.jobs[job].bad = d.jobs[job].bad || bad != nil
}
