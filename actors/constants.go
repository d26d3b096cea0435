package actors

import "time"

// This file owns every number of the protocol. A simulation may override each.

// Constants are the protocol's times and limits.
type Constants struct {
	Heartbeat time.Duration // between a machine's heartbeats
	DeadAfter time.Duration // silence after which a machine is declared dead
	RackTick  time.Duration // how often a rack looks: the reaper's error

	ReservationTTL  time.Duration // of phase one, on the machine's clock
	DecisionMargin  time.Duration // no decision later than TTL − margin after sending
	ReserveDeadline time.Duration // a machine that has not answered is given up
	StartDeadline   time.Duration // between Start and the last Started
	PrepareTimeout  time.Duration // default of a job's own
	ResendFirst     time.Duration // doubling …
	ResendCap       time.Duration // … to this

	Lease        time.Duration // leadership
	RecoveryWait time.Duration // a new leader's queue waits this long for machines
	BarrierGrace time.Duration // of ranks that started before their gang's barrier failed
	StopGrace    time.Duration // default of a job's own
	ReportDelay  time.Duration // a changed ledger is reported after this
	TombstoneAge time.Duration // kept at least this long

	BenchFirst     time.Duration
	BenchCap       time.Duration
	LaunchFailures int // in a row by its own fault, or of so many jobs, then the machine is cordoned

	InfraRestarts   int // cap of restarts that are not the job's fault
	PrepareFailures int // of one job since it last ran: then its image is taken to be broken
	// after the first of them, doubling to BackoffCap: a trouble that passes is not the image's
	PrepareBackoff time.Duration
	BackoffCap     time.Duration // of restart.backoff doubling

	SubmitsQueued int // submits waiting for the disk; beyond it clients are told to come later
	JournalBatch  int // changes in one transaction
	JournalRetry  time.Duration

	SubmitBytesQueued int           // bytes of the submits waiting for the disk, likewise
	JournalBatchBytes int           // bytes in one transaction; one larger change goes alone
	JournalSlow       time.Duration // after this long a pending write is reported to its job and to the gateway
	JournalSilence    time.Duration // a store that has not answered for this long may or may not have written

	MirrorFinished int // finished jobs that reads still show; older ones are in the store
	// MirrorBytes bounds what those jobs carry, and likewise what the last events do.
	MirrorBytes   int
	MirrorPage    int // entries in a page when the reader does not say
	MirrorPageMax int // and at most
	MirrorScan    int // entries that a filter looks at for one page

	LearnedEvery time.Duration // what was learned of how long jobs run is written no more often

	RosterPart int // bytes of a gang's packed list of machines in one message
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
		BarrierGrace: time.Second,
		ReportDelay:  10 * time.Millisecond,
		TombstoneAge: 10 * time.Minute,

		BenchFirst:     time.Second,
		BenchCap:       time.Minute,
		LaunchFailures: 3,

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
