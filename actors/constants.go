package actors

import "time"

// This file owns all times and limits of the protocol. A simulation may override each.

// Constants holds the protocol's times and limits.
type Constants struct {
	Heartbeat time.Duration // between a node's heartbeats
	DeadAfter time.Duration // silence after which a node is declared dead
	RackTick  time.Duration // how often a Rack checks for dead nodes: the error of DeadAfter

	ReservationTTL  time.Duration // of phase one, on the node's clock
	DecisionMargin  time.Duration // no decision later than TTL − margin after sending
	ReserveDeadline time.Duration // a node that has not answered by then ends the attempt
	StartDeadline   time.Duration // between Start and the last Started
	PrepareTimeout  time.Duration // default, if the job sets none
	ResendFirst     time.Duration // doubling …
	ResendCap       time.Duration // … to this

	Lease        time.Duration // leadership
	RecoveryWait time.Duration // how long a new leader's queue waits for the nodes
	SwapWait     time.Duration // how long the rest of a gang waits for another node, if the job sets nothing
	InPlaceHold  time.Duration // how long nodes keep the resources of an ended attempt for its heir
	InPlaceGrace time.Duration // of the other ranks when one fails, if the job sets none
	InPlaceQuick time.Duration // restarts in place that come sooner are delayed
	BarrierGrace time.Duration // of ranks that started before their gang's barrier failed
	StopGrace    time.Duration // default, if the job sets none
	ReportDelay  time.Duration // between a change of the ledger and its report
	TombstoneAge time.Duration // minimum age of a dropped tombstone

	NodeBackoffFirst time.Duration
	NodeBackoffCap   time.Duration
	LaunchFailures   int // launch failures in a row, or of this many jobs, after which a node is cordoned

	InfraRestarts   int // limit on restarts that are not the job's fault
	PrepareFailures int // of one job since its last run, after which its image counts as broken
	// PrepareBackoff is the pause after the first failed preparation. It doubles up to BackoffCap, so that a temporary
	// problem is not attributed to the image.
	PrepareBackoff time.Duration
	BackoffCap     time.Duration // limit of the doubling of restart.backoff

	SubmitsQueued int // submits that wait for the disk; further clients must retry later
	JournalBatch  int // changes in one transaction
	JournalRetry  time.Duration

	SubmitBytesQueued int           // total bytes of the submits that wait for the disk
	JournalBatchBytes int           // bytes in one transaction; one larger change gets its own
	JournalSlow       time.Duration // after this time, a pending write is reported to its job and to the gateway
	JournalSilence    time.Duration // after this time without an answer, the result of a write is unknown

	MirrorFinished int // finished jobs that readers see; older ones are in the store
	// MirrorBytes limits the size of those jobs, and also the size of the last events.
	MirrorBytes   int
	MirrorPage    int // default number of entries in a page
	MirrorPageMax int // maximum number of entries in a page
	MirrorScan    int // entries that a filter examines for one page

	LearnedEvery time.Duration // minimum interval between writes of the run-time statistics

	RosterPart int // bytes of a gang's packed list of nodes in one message
}

// DefaultConstants returns the constants that production uses.
func DefaultConstants() Constants {
	return Constants{
		Heartbeat: 5 * time.Second,
		DeadAfter: 10 * time.Second,
		RackTick:  250 * time.Millisecond,

		ReservationTTL:  10 * time.Second,
		DecisionMargin:  2 * time.Second,
		ReserveDeadline: 5 * time.Second,
		StartDeadline:   30 * time.Second,
		PrepareTimeout:  30 * time.Minute,
		ResendFirst:     250 * time.Millisecond,
		ResendCap:       5 * time.Second,

		Lease:        3 * time.Second,
		RecoveryWait: 2 * time.Second,
		StopGrace:    30 * time.Second,
		SwapWait:     time.Minute,
		InPlaceHold:  time.Minute,
		InPlaceGrace: 2 * time.Second,
		InPlaceQuick: 10 * time.Minute,
		BarrierGrace: time.Second,
		ReportDelay:  10 * time.Millisecond,
		TombstoneAge: 10 * time.Minute,

		NodeBackoffFirst: time.Second,
		NodeBackoffCap:   time.Minute,
		LaunchFailures:   3,

		InfraRestarts:   100,
		PrepareFailures: 4,
		PrepareBackoff:  5 * time.Second,
		BackoffCap:      10 * time.Minute,

		SubmitsQueued: 10_000,
		JournalBatch:  1_000,
		JournalRetry:  250 * time.Millisecond,

		SubmitBytesQueued: 256 << 20,
		JournalBatchBytes: 16 << 20,
		JournalSlow:       800 * time.Millisecond,
		JournalSilence:    30 * time.Second,

		MirrorFinished: 10_000,
		MirrorBytes:    16 << 20,
		MirrorPage:     100,
		MirrorPageMax:  1_000,
		MirrorScan:     10_000,

		LearnedEvery: time.Minute,

		RosterPart: 512 << 10,
	}
}
