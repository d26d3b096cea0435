package scheduler

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns what the Scheduler knows of one job that is not over.

// livingJob is one job from its submit until nothing of it is left to do.
type livingJob struct {
	id      topology.JobID
	key     requestKey
	hash    []byte
	rec     *messages.JobRecord // as submitted
	spec    *messages.JobSpec   // as it waited last: its time limit may have been changed
	read    []topology.Token    // its attempts as they were read from the store: the latest, and those that lack evidence
	pid     *actor.PID          // nil until the submit is on disk
	askers  []*actor.PID        // clients to be told that it is
	noted   bool                // that it waits was logged
	refused *messages.JobRecord // as it waits, where machines could not prepare it
	looks   uint64              // how often it chose its machines: the timers of earlier choices are stale
	avoids  []avoided           // machines where it failed, by a fault that may be its own
	breaks  int                 // times its actor was recreated without an end
	waits   *protocol.Waits     // its wish to be planned, while it is withheld, or lacks a uid
	promise *messages.Promise   // that its actor was told last, or has from disk
	runs    int32               // as it waited last
	offered topology.Token      // the last admission that its actor was sent
	run     *run                // its latest attempt; nil: there was none
	remakes bool
	idle    bool  // it is counted as one that waits
	bytes   int64 // of its record, as it is counted

	concluded messages.JobState // its terminal state, once that is on disk
	element   bool              // of an array
	heldBack  bool              // likewise, and it waits for its release
	wish      protocol.Waits    // likewise: what it said last

	withheld int // machines with a later run of it than the store knows
	ownUID       // of its tasks

	written   *messages.Promise // that its record on disk has
	stopped   victimOf          // for whom its actor was told to stop
	outranked outranked
	had       time.Duration // for how long attempts of it ran, those that were over when it waited last
}

// requestKey names a client's request.
type requestKey struct{ owner, id string }
