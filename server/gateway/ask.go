package gateway

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns a question to an actor: the process that receives the answer, and what happens if there is none.
// Proto.Actor's futures would do too, but each costs a timer of its own beside the call's deadline, and their names are
// not under a path to which the link lets answers pass.

// replyPath begins the names of reply processes. What follows cannot be guessed: a machine's answer only names the
// process that it is for, so with a known name a machine could answer for another machine, or for the Scheduler.
const replyPath = "synapse/gateway/"

// LeaderTrailer is the trailer in which a scheduler that does not lead names the one that does.
const LeaderTrailer = api.LeaderTrailer

// mailbox takes what is sent to it, at once and on the sender's goroutine.
type mailbox interface{ take(message any) }

// receiver is a mailbox as an actor.Process.
type receiver struct{ to mailbox }

func (r receiver) SendUserMessage(_ *actor.PID, envelope any) {
	_, message, _ := actor.UnwrapEnvelope(envelope)
	r.to.take(message)
}

// SendSystemMessage and Stop do nothing: only its client watches or ends a call.
func (receiver) SendSystemMessage(*actor.PID, any) {}
func (receiver) Stop(*actor.PID)                   {}

// open gives a mailbox an address; done takes it back.
func (g *Gateway) open(to mailbox) (pid *actor.PID, done func()) {
	for {
		name := replyPath + strconv.FormatUint(g.replies.Add(1), 10) + "-" + rand.Text()
		if pid, fresh := g.system.ProcessRegistry.Add(receiver{to}, name); fresh {
			return pid, func() { g.system.ProcessRegistry.Remove(pid) }
		}
	}
}

// reply takes one answer and ignores any after it.
type reply chan any

func (r reply) take(message any) {
	select {
	case r <- message:
	default:
	}
}

// ask sends a message and waits for the answer.
func (g *Gateway) ask(ctx context.Context, to *actor.PID, message any) (any, error) {
	answer := make(reply, 1)
	pid, done := g.open(answer)
	defer done()
	g.system.Root.RequestWithCustomSender(to, message, pid)
	got, err := g.wait(ctx, answer, to == g.scheduler) // only changes are asked of it
	if _, nobody := got.(*actor.DeadLetterResponse); nobody {
		return nil, api.StatusOf(notReady())
	}
	return got, err
}

// wait waits for an answer. Who has asked for a change learns in time if the store cannot be written.
func (g *Gateway) wait(ctx context.Context, answer reply, change bool) (any, error) {
	var late <-chan time.Time
	var begun <-chan struct{}
	if change {
		least := time.NewTimer(changeTime)
		defer least.Stop()
		late = least.C
	}
	for {
		select {
		case got := <-answer:
			return got, nil
		case <-ctx.Done():
			return nil, lapsed(ctx.Err())
		case <-g.closed:
			return nil, api.StatusOf(closing())
		case <-late:
		case <-begun:
		}
		var why string
		if why, begun = g.trouble.now(); why != "" {
			return nil, api.StatusOf(unwritable(why))
		}
	}
}

// outcomer has what all replies of actors have in common.
type outcomer interface{ GetOutcome() *messages.Outcome }

// question has what all requests have in common, once the principal is filled in.
type question interface{ Validate() error }

// call is a whole unary call: it checks the question, asks, and returns an outcome that is not OK as an error.
func call[A outcomer](ctx context.Context, g *Gateway, to *actor.PID, q question) (A, error) {
	var none A
	if err := g.admit(ctx, q); err != nil {
		return none, err
	}
	ctx, cancel := timed(ctx)
	defer cancel()
	got, err := g.ask(ctx, to, q)
	if err != nil {
		return none, err
	}
	a, ok := got.(A)
	if !ok {
		g.o.Log.Info("%s answered %T to %T", to.Id, got, q)
		return none, status.Error(codes.Internal, "answer does not match the request")
	}
	if err := api.StatusOf(a.GetOutcome()); err != nil {
		return none, err
	}
	return a, nil
}

// timed bounds a call without a deadline of its own.
func timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// admit lets a question in if this process leads and the question makes sense.
func (g *Gateway) admit(ctx context.Context, q question) error {
	if l := g.o.Leader(); !l.Here {
		hint := "try again in a few seconds"
		if l.Address != "" {
			hint = "use the leader at " + l.Address
			_ = grpc.SetTrailer(ctx, metadata.Pairs(LeaderTrailer, l.Address)) // without a call to set it on, nobody reads it
		}
		return api.StatusOf(unavailable("this scheduler is not the leader", hint))
	}
	if err := q.Validate(); err != nil {
		return api.StatusOf(invalid(err))
	}
	return nil
}

// awaitLoaded waits until the Scheduler has read the store: until then the Mirror knows no job and would deny that
// there are any.
func (g *Gateway) awaitLoaded(ctx context.Context) error {
	if g.loaded.Load() {
		return nil
	}
	// A Scheduler refuses this wish, which names no job; one that is still loading refuses it with the reason that is
	// wanted here.
	got, err := g.ask(ctx, g.scheduler, &messages.Hold{Principal: g.o.Principal(ctx)})
	if err != nil {
		return err
	}
	if a, ok := got.(outcomer); ok && a.GetOutcome().GetCode() == messages.Code_CODE_UNAVAILABLE {
		return api.StatusOf(a.GetOutcome())
	}
	g.loaded.Store(true)
	return nil
}

func invalid(err error) *messages.Outcome {
	var f *messages.FieldError
	if errors.As(err, &f) {
		return &messages.Outcome{Code: messages.Code_CODE_INVALID, Field: f.Field, Text: f.Text, Hint: f.Hint}
	}
	return &messages.Outcome{Code: messages.Code_CODE_INVALID, Text: err.Error()}
}

func unavailable(text, hint string) *messages.Outcome {
	return &messages.Outcome{Code: messages.Code_CODE_UNAVAILABLE, Text: text, Hint: hint}
}

func notReady() *messages.Outcome {
	return unavailable("this scheduler is starting", "try again in a few seconds")
}

func closing() *messages.Outcome {
	return unavailable("this scheduler is shutting down", "try again in a few seconds")
}

// lapsed is the error of a call whose time is up. What it asked for may have happened.
func lapsed(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return status.Error(codes.DeadlineExceeded, "no answer in time; the request may still be carried out "+
			"(repeat it; repeat a submit with the same request ID)")
	}
	return status.FromContextError(err).Err()
}
