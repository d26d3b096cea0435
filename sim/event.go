package sim

import (
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file defines the events that checkers see. They show what truly happens in the world, not what the actors
// believe.

// EventKind names a kind of event.
type EventKind uint8

// The kinds of events.
const (
	Sent    EventKind = iota // a process sent a message
	Handled                  // a Node has handled a message
	// a Job passed a write about an attempt or a start guarantee to the Journal: it is decided
	Drafted
	Stored       // a write became durable in the store
	Refused      // the store rejected a write, because of a conflict or a broken rule
	Led          // the store assigned an epoch to a process
	Replied      // the client got an answer
	Quarantined  // a node's ledger record was put aside
	TaskPrepared // a container is prepared
	TaskSpawned  // a process exists from now on
	TaskTold     // a launcher got the end of a task, and has reported it
	TaskSaved    // a task has acknowledged a request to save a checkpoint
	ExecPassed   // a launcher got an exec session for a task
	Checked      // a health check of a node has ended
	TaskEnded    // a process group has ended, and its cgroup is empty
	Scanned      // some time has passed: checkers may look at the whole world
	eventKinds
)

// Event is one thing that happened.
type Event struct {
	Kind    EventKind
	Process *process         // the process that sent, stored, led or handled it
	Message messages.Message // the message that was sent, handled or replied
	To      *endpoint        // receiver of a sent message
	Path    string           // path of the receiving actor
	Machine *machine         // node of a task
	Task    *task
	Stored  *stored
	Draft   *actors.Change
	Since   instant // a draft's decisions may be as old as this, because they waited for the write before
	Refused string
	Epoch   uint64    // epoch that a process was assigned
	Before  nodeState // state of a Node before it handled a message
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string
	Text      string
	At        instant
}

// String returns the line that a failing seed prints.
func (v Violation) String() string {
	return fmt.Sprintf("violation: %s: %s (at %s)", v.Invariant, v.Text, clockFace(v.At))
}

// Invariant is a rule that must hold whatever happens.
type Invariant interface {
	about() *rule
	Step(w *World, e *Event)
	// Quiet checks the world when nothing is in progress any more.
	Quiet(w *World)
}

// rule holds the number and name of an invariant, as in the protocol, and the events that it watches.
type rule struct {
	name    string
	watches on
}

type on []EventKind

func (r *rule) about() *rule { return r }

// Quiet checks nothing, because most invariants have nothing to check in a world at rest.
func (*rule) Quiet(*World) {}

func (r *rule) violate(w *World, format string, args ...any) { w.violate(r.name, format, args...) }

// seen shows an event to the checkers that watch it.
func (w *World) seen(e Event) {
	if !w.checking || len(w.byKind[e.Kind]) == 0 {
		return
	}
	// The event is a field of the world, because its address escapes. An event on the heap for each message would
	// cost more than the checks.
	w.event = e
	for _, inv := range w.byKind[e.Kind] {
		inv.Step(w, &w.event)
	}
}

// violationsMost limits the violations of one run, because the step that broke one rule may break others.
const violationsMost = 5

// violate ends the run, because everything after a broken rule may be its consequence.
func (w *World) violate(invariant, format string, args ...any) {
	if len(w.violations) >= violationsMost {
		return
	}
	w.violations = append(w.violations, Violation{invariant, fmt.Sprintf(format, args...), w.engine.now})
	w.engine.halted = true
}

// panicked records an actor's panic.
func (w *World) panicked(m *mailbox, message, reason any, stack []byte) {
	w.violate("panic", "%s/%s at %s: %v\n%s", m.proc.address, m.self.Id, describe(unwrapped(message)), reason, stack)
}

// newInvariants returns all invariants for one run.
func newInvariants() []Invariant {
	return []Invariant{
		newOneOwner(), newBooksBalance(), newBarrier(), newOneDecision(), newTokensGrow(), newEpochsGrow(), newShapeKept(),
		newAcknowledgedKept(), newIdempotent(), newFreedOnEvidence(), newWholeGang(), newOwnFacts(),
		newAtRest(), newBounded(), newCauseBeforeStop(), newBehindStops(), newHoldHolds(), newFaultlessStay(),
		newFenceHolds(), newSuccessStays(),
		newHonestBelieved(), newOwnUID(), newBeginKept(), newClosingKept(), newLearnedOnce(), newSameAnswer(),
		newLentIsBack(), newWarnedInTime(), newNeverOver(), newNotInVain(), newFreedIsKept(),
		newPreemptionsEnd(), newAfterKept(), newHarmsItself(), newArrayKept(), newOnce(), newWellFirst(),
		newExecInRunning(), newGPUTimeCounted(), newBarrierFailed(), newOwnersKept(), newSavedFirst(), newHangNamed(),
		newHeirTakesOver(),
		newSparesHeld(),
		newPromiseKept(), newTwoSlips(), newPromiseMet(), newIdleNamed(),
		newReservationsEnd(), newHeadRuns(), newCancelledGone(), newOneLeader(), newAllAdmitted(), newAllAgree(),
		newDrainEmpties(), newIdle(),
	}
}
