package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
)

// This file owns the dispatch of the Scheduler's messages.

// handlers lists the Scheduler's message types with their handlers.
var handlers = actors.Handlers[*Scheduler]{
	// Jobs: their state in the queue, and their attempts.
	actors.On[protocol.Waits]((*Scheduler).onWaits),
	actors.On[protocol.Rests]((*Scheduler).onRests),
	actors.On[protocol.Withdraws]((*Scheduler).onWithdraws),
	actors.On[protocol.Declined]((*Scheduler).onDeclined),
	actors.On[protocol.Claim]((*Scheduler).onClaim),
	actors.On[protocol.Inherit]((*Scheduler).onInherit),
	actors.On[protocol.Inherited]((*Scheduler).onInherited),
	actors.On[protocol.Heirless]((*Scheduler).onHeirless),
	actors.On[protocol.Foreseen]((*Scheduler).onForeseen),
	actors.On[protocol.PromiseWritten]((*Scheduler).onPromiseWritten),
	actors.On[protocol.Redeemed]((*Scheduler).onRedeemed),
	actors.On[protocol.AttemptEnded]((*Scheduler).onAttemptEnded),
	actors.On[protocol.Accused]((*Scheduler).onAccused),
	actors.On[protocol.Concluded]((*Scheduler).onConcluded),
	actors.On[protocol.HasStarted]((*Scheduler).onHasStarted),
	actors.On[protocol.Settled]((*Scheduler).onSettled),
	actors.On[protocol.Stale]((*Scheduler).onStale),
	actors.On[*actor.Terminated]((*Scheduler).onJobBroke),

	// Coordinators and Jobs: the nodes of an attempt.
	actors.On[protocol.Occupied]((*Scheduler).onOccupied),
	actors.On[protocol.Vacated]((*Scheduler).onVacated),
	actors.On[protocol.Balked]((*Scheduler).onBalked),
	actors.On[protocol.Launched]((*Scheduler).onLaunched),
	actors.On[protocol.LaunchFailed]((*Scheduler).onLaunchFailed),
	actors.On[protocol.StrangeToken]((*Scheduler).onStrangeToken),

	// Arrays: their elements.
	actors.On[protocol.Sprout]((*Scheduler).onSprout),
	actors.On[protocol.Probe]((*Scheduler).onProbe),
	actors.On[protocol.Allows]((*Scheduler).onAllows),
	actors.On[protocol.HeldBack]((*Scheduler).onHeldBack),

	// Clients: their requests.
	actors.On[*messages.Submit]((*Scheduler).onSubmit),
	actors.On[*messages.DryRun]((*Scheduler).onDryRun),
	actors.On[*messages.Cancel]((*Scheduler).onCancel),
	actors.On[*messages.Hold]((*Scheduler).onHold),
	actors.On[*messages.Requeue]((*Scheduler).onRequeue),
	actors.On[*messages.Checkpoint]((*Scheduler).onCheckpoint),
	actors.On[*messages.Update]((*Scheduler).onUpdate),
	actors.On[*messages.ChangeNode]((*Scheduler).onChangeNode),
	actors.On[*messages.ApplyQueues]((*Scheduler).onApplyQueues),

	// Nodes and links.
	actors.On[*messages.Hello]((*Scheduler).onHello),
	actors.On[actors.LinkUp]((*Scheduler).onLinkUp),
	actors.On[actors.LinkDown]((*Scheduler).onLinkDown),
	actors.On[protocol.Reported]((*Scheduler).onReported),
	actors.On[protocol.Lost]((*Scheduler).onLost),
	actors.On[protocol.StrangerHeard]((*Scheduler).onStrangerHeard),

	// The store and the Mirror: their answers.
	actors.On[protocol.Written]((*Scheduler).onWritten),
	actors.On[actors.Loaded]((*Scheduler).onLoaded),
	actors.On[actors.Found]((*Scheduler).onFound),
	actors.On[mirror.GPUTimeTaken]((*Scheduler).onGPUTimeTaken),
	actors.OnBare[mirror.GPUTimeMoved]((*Scheduler).onGPUTimeMoved),

	// The Scheduler's own timers.
	actors.OnBare[PlanNow]((*Scheduler).onPlan),
	actors.On[patienceOver]((*Scheduler).onPatienceOver),
	actors.OnBare[tellAgain]((*Scheduler).onTellAgain),
	actors.OnBare[showAgain]((*Scheduler).onShowAgain),
	actors.On[lookAgain]((*Scheduler).onLookAgain),
	actors.On[greetAgain]((*Scheduler).onGreetAgain),
	actors.OnBare[uidDue]((*Scheduler).onUIDDue),
	actors.On[restEnds]((*Scheduler).onRestEnds),
	actors.OnBare[restsNeeded]((*Scheduler).onRestsNeeded),
	actors.On[tidySuspects]((*Scheduler).onTidySuspects),
	actors.On[endBackOff]((*Scheduler).onBackOffEnds),
	actors.On[drainDue]((*Scheduler).onDrainDue),
	actors.On[closingDue]((*Scheduler).onClosingDue),
	actors.On[remake]((*Scheduler).onRemake),
	actors.OnBare[saveLearned]((*Scheduler).onSaveLearned),
	actors.OnBare[recovered]((*Scheduler).onRecovered),
	actors.On[askAgain]((*Scheduler).onAskAgain),
	actors.On[askOrphan]((*Scheduler).onAskOrphan),
	actors.OnBare[retryLoad]((*Scheduler).load),
	actors.OnBare[*actor.Started]((*Scheduler).onStarted),
}

// Receive handles a message, and sends the Mirror the changes of nodes.
func (s *Scheduler) Receive(ctx actor.Context) {
	handlers.Receive(s, ctx)
	s.showRooms(ctx)
}

func (s *Scheduler) onHold(ctx actor.Context, m *messages.Hold) {
	s.toJob(ctx, m.Job, &messages.HoldReply{Job: m.Job, Outcome: s.noJob(m.Job), Release: m.Release})
}

func (s *Scheduler) onRequeue(ctx actor.Context, m *messages.Requeue) {
	s.toJob(ctx, m.Job, &messages.RequeueReply{Job: m.Job, Outcome: s.noJob(m.Job)})
}

func (s *Scheduler) onCheckpoint(ctx actor.Context, m *messages.Checkpoint) {
	s.toJob(ctx, m.Job, &messages.CheckpointReply{Job: m.Job, Outcome: s.noJob(m.Job)})
}

func (s *Scheduler) onConcluded(ctx actor.Context, m protocol.Concluded) {
	s.conclude(ctx, m.Job, m.State, m.Since)
}

func (s *base) onStrangerHeard(ctx actor.Context, m protocol.StrangerHeard) { s.lead(ctx, m.Node) }

func (s *Scheduler) onRecovered(ctx actor.Context) { s.recover(ctx, "waited") }

func (s *storeQueries) onAskAgain(_ actor.Context, m askAgain) { s.ask(m.Why, m.Query) }

// onShowAgain ends the pause between two updates of the Mirror. The changes in the meantime are sent after this
// message.
func (s *teller) onShowAgain(actor.Context) { s.showing.armed = false }
