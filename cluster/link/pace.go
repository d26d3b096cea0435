package link

import (
	"time"

	"github.com/yi-json/synapse/clock"
)

// This file owns how fast a peer is read. An actor's mailbox has no bound, so a peer that floods is made to wait in its
// own sockets: the stream's flow control holds back what is not read here.

// pace measures what a peer has sent against the time it had. due is when all of that would have been sent at the rate
// allowed.
type pace struct {
	clock clock.Clock
	due   time.Time
}

// took counts messages and bytes, and returns for how long to read nothing.
func (p *pace) took(messages, bytes int) time.Duration {
	now := p.clock.Now()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(messages)*messageCost + time.Duration(float64(bytes)*byteCost))
	return p.due.Sub(now) - paceBurst
}
