package link

import (
	"time"

	"github.com/yi-json/synapse/clock"
)

// This file owns the rate at which a peer is read. An actor's mailbox has no limit, so a flooding peer must wait in its
// own sockets. The stream's flow control holds back data that is not read.

// pace compares the amount that a peer has sent with the permitted rate. The field due is when that amount would be
// permitted.
type pace struct {
	clock clock.Clock
	due   time.Time
}

// took counts messages and bytes, and returns how long to pause the reading.
func (p *pace) took(messages, bytes int) time.Duration {
	now := p.clock.Now()
	if p.due.Before(now) {
		p.due = now
	}
	p.due = p.due.Add(time.Duration(messages)*messageCost + time.Duration(float64(bytes)*byteCost))
	return p.due.Sub(now) - paceBurst
}
