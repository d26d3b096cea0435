// Package store keeps the leader's durable records. One contract, several
// databases: package storetest tries each with the same cases.
//
// It owns what happens to a write when two leaders, a lost answer or a bug compete for the same record. It must never
// decide anything else: the leader decides which job runs where, and a record says what the leader said.
package store

import (
	"errors"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

var (
	// ErrDeposed: the epoch is not that of the current leader. Nothing was written.
	ErrDeposed = errors.New("store: the epoch is no longer the leader's")
	// ErrNotFound: no such record.
	ErrNotFound = errors.New("store: not found")
	// ErrClosed: the store was closed before the call, which did nothing.
	ErrClosed = errors.New("store: closed")
)

// Position is a place in the order in which jobs finished. The zero stands
// before all of them.
type Position struct {
	FinishedUnixMs int64
	Job            topology.JobID
}

// Store is the interface of a database. It is synchronous and safe for concurrent use; actors reach it through Port. A
// write is durable when its call returns without an error, and everything that a read returns is durable.
type Store interface {
	// Lead takes leadership: it makes a new epoch, higher than any before, durable
	// and returns it. From then on every call with another epoch fails with ErrDeposed, and so does every call of a
	// process after another process has led: holder names exactly one process, and is compared wherever the epoch is. The
	// epoch alone would not do, because an asynchronous replica that takes over may have lost the last epoch and give it
	// out a second time. Which scheduler may lead, and for how long, is not decided here: an implementation with a lease
	// may refuse with an error of its own.
	Lead(holder string) (epoch uint64, err error)

	// Load returns what a leader needs to go on: what is over and lacks no evidence stays in the database, however much of
	// it there is. A job or a machine with a record that cannot be read is named instead.
	Load(epoch uint64) (*actors.Loaded, error)

	// Apply writes changes in one transaction that also checks the epoch, and
	// returns one verdict each. A change that conflicts is left out and does not hinder the others; they are judged one
	// after the other, each on the result of those before it. After an error other than ErrDeposed, all of it or nothing
	// was written, and the caller does not know which. See rules.go for the verdicts.
	Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error)

	// Prune forgets up to limit jobs, oldest first, that finished before this time and lack no evidence, and returns how
	// many. Their ids stay used for ever; their request ids may be used again.
	Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error)

	// Job reads one job and all its attempts in the order of their tokens, as of
	// one moment. ErrNotFound if there is none, a Damage if one of them cannot be read.
	Job(id topology.JobID) (*messages.JobRecord, []*messages.AttemptRecord, error)

	// Pruned reports whether Prune has forgotten a job of this id.
	Pruned(id topology.JobID) (bool, error)

	// Requested is Job for the job that an owner's request made.
	Requested(owner, requestID string) (*messages.JobRecord, []*messages.AttemptRecord, error)

	// Finished reads up to limit jobs that are over, in the order in which they finished, beginning behind the position.
	// The next page begins at PositionOf the last one.
	Finished(after Position, limit int) ([]*messages.JobRecord, error)

	// History reads a page of jobs that are over, the newest first, with all their
	// attempts, as of one moment; what cannot be read is left out and named. See Past
	// for what may be asked, and Page for how to go on.
	History(past Past) (Page, error)

	// KeepScript keeps a script's text under its digest, once. A job that names it may be
	// written from then on, for as long as two calls of PruneScripts are apart.
	KeepScript(epoch uint64, text []byte) error

	// Script reads a text. ErrNotFound if there is none, ErrDamaged if it is not the one that was kept.
	Script(digest string) ([]byte, error)

	// PruneScripts forgets up to limit scripts that no job names now or named at the last call, and that were not kept
	// again since, and returns how many. No clock says how old a script is.
	PruneScripts(epoch uint64, limit int) (int, error)

	// KeepPass keeps a person's token. One of the same id stays as it is.
	KeepPass(epoch uint64, pass *messages.PassRecord) error

	// DropPass forgets a token; one that is not there is forgotten already.
	DropPass(epoch uint64, id string) error

	// Pass reads a token, and Passes all of them in the order of their ids. ErrNotFound if there is none, ErrDamaged if it
	// cannot be read; Passes leaves those out.
	Pass(id string) (*messages.PassRecord, error)
	Passes() ([]*messages.PassRecord, error)

	// KeepHead keeps how far a scheduler's audit has got, in place of what was kept of it before. No epoch guards it: a
	// scheduler that stands by has an audit too, and each tells of its own alone.
	KeepHead(head AuditHead) error

	// Heads are those that were kept, in the order of their schedulers.
	Heads() ([]AuditHead, error)

	// Close lets go of the database; later calls are ErrClosed.
	Close() error
}

// PositionOf is where a finished job stands.
func PositionOf(j *messages.JobRecord) Position {
	return Position{FinishedUnixMs: j.GetFinishedUnixMs(), Job: topology.JobID(j.GetId())}
}

// unsettled picks, of a job's attempts in the order of their tokens, those that
// a leader goes on with: the latest, and earlier ones that lack evidence.
func unsettled(attempts []*messages.AttemptRecord) []*messages.AttemptRecord {
	var keep []*messages.AttemptRecord
	for i, a := range attempts {
		if i == len(attempts)-1 || a.Owes() {
			keep = append(keep, a)
		}
	}
	return keep
}
