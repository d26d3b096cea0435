package host

import (
	"context"
	"fmt"

	"github.com/asynkron/protoactor-go/actor"
)

// This file owns requests to an actor of this process from outside of all actors.

// answered is an address that accepts one answer, and ignores later ones.
type answered chan any

// SendUserMessage accepts an answer.
func (a answered) SendUserMessage(_ *actor.PID, envelope any) {
	select {
	case a <- actor.UnwrapEnvelopeMessage(envelope):
	default:
	}
}

// SendSystemMessage and Stop do nothing, because no actor watches or stops a request.
func (answered) SendSystemMessage(*actor.PID, any) {}
func (answered) Stop(*actor.PID)                   {}

// Ask sends a message to an actor and waits for its answer.
func (h *Host) Ask(ctx context.Context, to *actor.PID, message any) (any, error) {
	answer := make(answered, 1)
	pid, fresh := h.system.ProcessRegistry.Add(answer, fmt.Sprintf("synapse/ask/%d", h.asked.Add(1)))
	if !fresh {
		return nil, fmt.Errorf("request name %s is already in use", pid.Id)
	}
	defer h.system.ProcessRegistry.Remove(pid)
	h.system.Root.RequestWithCustomSender(to, message, pid)
	select {
	case got := <-answer:
		if _, nobody := got.(*actor.DeadLetterResponse); nobody {
			return nil, fmt.Errorf("actor %s does not exist", to.Id)
		}
		return got, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
