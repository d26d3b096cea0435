package sim

import (
	"fmt"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// This file owns what the checkers are shown: things as they truly happen in
// the world, not as the actors believe them to be.

// EventKind is a sort of thing that happens.
type EventKind uint8

// The kinds of events.
const (
	Sent         EventKind = iota // a process put a message on its way
	Handled                       // a Node has dealt with a message
	Drafted                       // a Job handed a write about an attempt or a promise to the Journal: it is decided
	Stored                        // a write became durable in the store
	Refused                       // a write was not: somebody else came first, or it broke a rule
	Led                           // the store gave a process an epoch
	Replied                       // the client got an answer
	Quarantined                   // a machine's ledger record was put aside
	TaskPrepared                  // a container could be started
	TaskSpawned                   // a process exists from now on
	TaskTold                      // its launcher was told of its end, and has told it
	ExecPassed                    // its launcher was told to run an exec session in it
	Checked                       // a check of a machine's health has ended
	TaskEnded                     // a process group has gone and its cgroup is empty
	Scanned                       // some time has passed: the whole world may be looked at
	eventKinds
)

// Event is one thing that happened.
type Event struct {
	Kind    EventKind
	Process *process         // who sent, stored, led or handled it
	Message messages.Message // that was sent, handled or replied
	To      *endpoint        // of a message that was sent
	Path    string           // of the actor it was sent to
	Machine *machine         // of a task
	Task    *task
	Stored  *stored
	Draft   *actors.Change
	Since   instant // a draft's decisions may be as old as this: they waited for the write before
	Refused string
	Epoch   uint64    // that a process was given
	Before  nodeState // of a Node that has handled a message
}

// Violation is a broken invariant.
type Violation struct {
	Invariant string
	Text      string
	At        instant
}

// String is the line that a failing seed prints.
func (v Violation) String() string {
	return fmt.Sprintf("violation: %s: %s (at %s)", v.Invariant, v.Text, clockFace(v.At))
}

// Invariant is something that must hold whatever happens.
type Invariant interface {
	about() *rule
	Step(w *World, e *Event)
	// Quiet looks at the world when nothing is under way any more.
	Quiet(w *World)
}

// rule holds the number and name of an invariant, as in the protocol, and the events that it watches.
type rule struct {
	name    string
	watches on
}

type on []EventKind

func (r *rule) about() *rule { return r }

// Quiet looks at nothing: most have nothing to look at in a world at rest.
func (*rule) Quiet(*World) {}

func (r *rule) violate(w *World, format string, args ...any) { w.violate(r.name, format, args...) }

// seen shows an event to the checkers that want it.
func (w *World) seen(e Event) {
	if !w.checking || len(w.byKind[e.Kind]) == 0 {
		return
	}
	// The event lives in the world: its address is given away, and one on the
	// heap for each message would cost more than the checks.
	w.event = e
	for _, inv := range w.byKind[e.Kind] {
		inv.Step(w, &w.event)
	}
}

// violationsMost is how many are told of one run: the step that broke one rule
// may break others.
const violationsMost = 5

// violate ends the run: after a broken rule everything else may be its consequence.
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

// newInvariants are all of them, for one run.
func newInvariants() []Invariant {
	return []Invariant{
		newOneOwner(), newBooksBalance(), newBarrier(), newOneDecision(), newTokensGrow(), newEpochsGrow(), newShapeKept(),
		newAcknowledgedKept(), newIdempotent(), newFreedOnEvidence(), newWholeGang(), newOwnFacts(),
		newAtRest(), newBounded(), newCauseBeforeStop(), newBehindStops(), newHoldHolds(), newFaultlessStay(),
		newFenceHolds(), newSuccessStays(),
		newHonestBelieved(), newOwnUID(), newBeginKept(), newClosingKept(), newLearnedOnce(), newSameAnswer(),
		newLentIsBack(), newWarnedInTime(), newNeverOver(), newNotInVain(), newFreedIsKept(),
		newPreemptionsEnd(), newAfterKept(), newHarmsItself(), newArrayKept(), newOnce(), newWellFirst(),
		newExecInRunning(), newGPUTimeCounted(), newBarrierFailed(), newOwnersKept(),
		newPromiseKept(), newTwoSlips(), newPromiseMet(), newIdleNamed(),
		newReservationsEnd(), newHeadRuns(), newCancelledGone(), newOneLeader(), newAllAdmitted(), newAllAgree(),
		newDrainEmpties(), newIdle(),
	}
}
