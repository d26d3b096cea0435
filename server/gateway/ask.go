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

// This file sends requests to actors: it creates the process that receives the answer, and handles a missing
// answer. Proto.Actor's futures are not used. Each would need a second timer, and their names are not under the
// path to which the link delivers answers.

// replyPath is the start of the names of reply processes. The rest of a name is random. A node's answer contains
// only the name of the process that it is for. With a predictable name, a node could answer for another node or for
// the Scheduler.
const replyPath = "synapse/gateway/"

// LeaderTrailer is the trailer in which a standby scheduler names the leader.
const LeaderTrailer = api.LeaderTrailer

// mailbox receives messages immediately, on the sender's goroutine.
type mailbox interface{ take(message any) }

// receiver implements actor.Process with a mailbox.
type receiver struct{ to mailbox }

func (r receiver) SendUserMessage(_ *actor.PID, envelope any) {
	_, message, _ := actor.UnwrapEnvelope(envelope)
	r.to.take(message)
}

// SendSystemMessage and Stop do nothing, because only its client watches or ends a call.
func (receiver) SendSystemMessage(*actor.PID, any) {}
func (receiver) Stop(*actor.PID)                   {}

// open gives a mailbox an address; done removes it.
func (g *Gateway) open(to mailbox) (pid *actor.PID, done func()) {
	for {
		name := replyPath + strconv.FormatUint(g.replies.Add(1), 10) + "-" + rand.Text()
		if pid, fresh := g.system.ProcessRegistry.Add(receiver{to}, name); fresh {
			return pid, func() { g.system.ProcessRegistry.Remove(pid) }
		}
	}
}

// reply takes the first answer and ignores all others.
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
	got, err := g.wait(ctx, answer, to == g.scheduler) // only changes go to the Scheduler
	if _, nobody := got.(*actor.DeadLetterResponse); nobody {
		return nil, api.StatusOf(notReady())
	}
	return got, err
}

// wait waits for an answer. For a change, it returns an error soon if the store cannot be written.
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

// outcomer is the interface of all replies of actors.
type outcomer interface{ GetOutcome() *messages.Outcome }

// question is the interface of all requests.
type question interface{ Validate() error }

// call makes a unary call: it checks the request, asks the actor, and returns an outcome that is not OK as an
// error.
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

// timed adds a deadline to a call without one.
func timed(ctx context.Context) (context.Context, context.CancelFunc) {
	if _, ok := ctx.Deadline(); ok {
		return ctx, func() {}
	}
	return context.WithTimeout(ctx, callTimeout)
}

// admit checks that this process leads and that the request is valid.
func (g *Gateway) admit(ctx context.Context, q question) error {
	if l := g.o.Leader(); !l.Here {
		hint := "try again in a few seconds"
		if l.Address != "" {
			hint = "use the leader at " + l.Address
			_ = grpc.SetTrailer(ctx, metadata.Pairs(LeaderTrailer, l.Address)) // fails outside a call, which is harmless
		}
		return api.StatusOf(unavailable("this scheduler is not the leader", hint))
	}
	if err := q.Validate(); err != nil {
		return api.StatusOf(invalid(err))
	}
	return nil
}

// awaitLoaded waits until the Scheduler has read the store. Before that, the Mirror knows no jobs and would report
// that none exist.
func (g *Gateway) awaitLoaded(ctx context.Context) error {
	if g.loaded.Load() {
		return nil
	}
	// A Scheduler refuses this request, because it names no job. While it loads, the refusal has the reason
	// that is needed here.
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

// lapsed returns the error of a call whose time is up. The request may still have taken effect.
func lapsed(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return status.Error(codes.DeadlineExceeded, "no answer in time; the request may still be carried out "+
			"(repeat it; repeat a submit with the same request ID)")
	}
	return status.FromContextError(err).Err()
}
