package host

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns a question to an actor of this process from outside of all actors.

// answered is an address that takes one answer, and ignores any after it.
type answered chan any

// SendUserMessage takes an answer.
func (a answered) SendUserMessage(_ *actor.PID, envelope any) {
	select {
	case a <- actor.UnwrapEnvelopeMessage(envelope):
	default:
	}
}

// SendSystemMessage and Stop do nothing: nobody watches or stops a question.
func (answered) SendSystemMessage(*actor.PID, any) {}
func (answered) Stop(*actor.PID)                   {}

// Ask sends a message to an actor and waits for its answer.
func (h *Host) Ask(ctx context.Context, to *actor.PID, message any) (any, error) {
	answer := make(answered, 1)
	pid, fresh := h.system.ProcessRegistry.Add(answer, fmt.Sprintf("synapse/ask/%d", h.asked.Add(1)))
	if !fresh {
		return nil, fmt.Errorf("a question has the name of another: %s", pid.Id)
	}
	defer h.system.ProcessRegistry.Remove(pid)
	h.system.Root.RequestWithCustomSender(to, message, pid)
	select {
	case got := <-answer:
		if _, nobody := got.(*actor.DeadLetterResponse); nobody {
			return nil, fmt.Errorf("%s is not there", to.Id)
		}
		return got, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
