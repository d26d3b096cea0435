// Package store keeps the leader's durable records. It defines one contract for several databases. Package storetest
// tests each of them with the same cases.
//
// The store decides the result of a write if two leaders, a lost answer or a bug compete for the same record. It
// decides nothing else: the leader decides which job runs where, and the records contain these decisions.
package store

import (
	"errors"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

var (
	// ErrDeposed is returned if the epoch is not that of the current leader. Nothing was written.
	ErrDeposed = errors.New("store: the epoch is no longer the leader's")
	// ErrNotFound is returned if there is no such record.
	ErrNotFound = errors.New("store: not found")
	// ErrClosed is returned if the store was closed before the call. The call did nothing.
	ErrClosed = errors.New("store: closed")
)

// Position is a place in the order in which jobs finished. The zero value precedes all jobs.
type Position struct {
	FinishedUnixMs int64
	Job            topology.JobID
}

// Store is the interface of a database. It is synchronous and safe for concurrent use. Actors use it through Port. A
// write is durable when its call returns without an error, and everything that a read returns is durable.
type Store interface {
	// Lead takes the leadership. It makes a new epoch durable that is higher than any before, and returns it. From then
	// on, every call with another epoch fails with ErrDeposed. So does every call of a process after another process has
	// led: holder identifies exactly one process, and it is compared together with the epoch. The epoch alone is not
	// enough, because an asynchronous replica may lose the last epoch in a failover and issue it again. Lead does not
	// decide which scheduler may lead and for how long. An implementation with a lease may refuse with its own error.
	Lead(holder string) (epoch uint64, err error)

	// Load returns the state that a leader needs. Finished jobs whose exits are all confirmed stay in the database,
	// whatever their number. For a job or node with an unreadable record, it returns the name only.
	Load(epoch uint64) (*actors.Loaded, error)

	// Apply writes changes in one transaction that also checks the epoch, and returns one verdict each. A change that
	// conflicts is omitted and does not affect the others. Each change is judged on the result of the previous ones. After
	// an error other than ErrDeposed, either all or nothing was written, and the caller does not know which. The file
	// rules.go defines the verdicts.
	Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error)

	// Prune deletes up to limit jobs, oldest first, that finished before this time and whose exits are all confirmed. It
	// returns their number. Their IDs stay used forever. Their request IDs may be used again.
	Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error)

	// Job reads one job and all its attempts in the order of their tokens, in one snapshot. It returns ErrNotFound if
	// there is no such job, and a Damage if a record is unreadable.
	Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error)

	// Pruned reports whether Prune has deleted a job with this ID.
	Pruned(id topology.JobID) (bool, error)

	// Requested is like Job for the job that an owner's request created.
	Requested(owner, requestID string) (*messages.JobRecord, []*messages.AttemptRecord, error)

	// Finished reads up to limit finished jobs after the position, in the order in which they finished. The next page
	// begins at PositionOf the last one.
	Finished(after Position, limit int) ([]*messages.JobRecord, error)

	// History reads a page of finished jobs, newest first, with all their attempts, in one snapshot. It omits unreadable
	// records and names them. Past defines the query, and Page how to continue.
	History(past Past) (Page, error)

	// KeepScript stores a script's text under its digest, once. The caller may then write a job that names it, until the
	// second call of PruneScripts from now.
	KeepScript(epoch uint64, text []byte) error

	// Script reads a text. It returns ErrNotFound if there is none, and ErrDamaged if the text does not match its digest.
	Script(digest string) ([]byte, error)

	// PruneScripts deletes up to limit unused scripts: no job names them now, none did at the last call, and they were not
	// stored again in between. It returns their number. The age of a script does not depend on a clock.
	PruneScripts(epoch uint64, limit int) (int, error)

	// KeepPass stores a user's token. An existing token with the same ID stays unchanged.
	KeepPass(epoch uint64, pass *messages.PassRecord) error

	// DropPass deletes a token. Deleting a missing token is not an error.
	DropPass(epoch uint64, id string) error

	// Pass reads a token. Passes reads all tokens sorted by ID. Pass returns ErrNotFound if there is none, and ErrDamaged
	// if it is unreadable. Passes omits unreadable tokens.
	Pass(id string) (*messages.PassRecord, error)
	Passes() ([]*messages.PassRecord, error)

	// KeepHead stores the head of a scheduler's audit log, replacing the earlier one. No epoch protects it: a standby
	// scheduler also has an audit log, and each stores its own head only.
	KeepHead(head AuditHead) error

	// Heads returns the stored heads, sorted by scheduler.
	Heads() ([]AuditHead, error)

	// Close closes the database. Later calls return ErrClosed.
	Close() error
}

// PositionOf returns the position of a finished job.
func PositionOf(j *messages.JobRecord) Position {
	return Position{FinishedUnixMs: j.GetFinishedUnixMs(), Job: topology.JobID(j.GetId())}
}

// unsettled returns the attempts of a job that a leader continues with: the latest, and earlier ones with unconfirmed
// exits. The attempts are in the order of their tokens.
func unsettled(attempts []*messages.AttemptRecord) []*messages.AttemptRecord {
	var keep []*messages.AttemptRecord
	for i, a := range attempts {
		if i == len(attempts)-1 || a.Owes() {
			keep = append(keep, a)
		}
	}
	return keep
}
