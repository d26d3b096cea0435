package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file computes when waiting jobs may start, and which nodes are reserved for them. The answer covers all
// waiting jobs, over several pages of the API, and is expensive if many jobs wait. All pages of a user therefore
// share one answer. It is valid longer if it took longer to compute.

const (
	waitingPage = 500
	// waitingFor is the minimum validity of an answer. waitingShare limits the share of time spent on answers.
	waitingFor   = 4 * time.Second
	waitingShare = 50
)

// waitings holds the last answers by user.
type waitings struct {
	mu  sync.Mutex
	all map[string]*waiting
}

type waiting struct {
	mu     sync.Mutex // held during a request
	starts []*start
	until  time.Time
}

// waiting returns when waiting jobs may start, and their reserved nodes.
func (p *Page) waiting(r *http.Request) (any, error) {
	p.waits.mu.Lock()
	if len(p.waits.all) > maxStreams {
		clear(p.waits.all)
	}
	last := p.waits.all[guestOf(r).Whom]
	if last == nil {
		last = &waiting{}
		p.waits.all[guestOf(r).Whom] = last
	}
	p.waits.mu.Unlock()
	last.mu.Lock()
	defer last.mu.Unlock()
	began := time.Now()
	if last.until.After(began) {
		return last.starts, nil
	}
	starts, err := startsOf(r.Context(), asked(r))
	if err != nil {
		return nil, err
	}
	last.starts, last.until = starts, time.Now().Add(max(waitingFor, waitingShare*time.Since(began)))
	return starts, nil
}

// startsOf requests the starts of all waiting jobs. It omits those that only repeat the reason, which the stream has.
func startsOf(ctx context.Context, on api.SynapseClient) ([]*start, error) {
	starts, after := []*start{}, ""
	for {
		reply, err := on.ListJobs(ctx, &messages.ListJobs{Phases: []string{messages.PhaseQueued}, Limit: waitingPage,
			After: after})
		if err != nil {
			return nil, err
		}
		for _, j := range reply.GetJobs() {
			if s := startOf(j); s != nil && (s.Words != messages.WhyOf(j) || len(s.Kept) > 0) {
				starts = append(starts, s)
			}
		}
		if after = reply.GetNext(); after == "" {
			return starts, nil
		}
	}
}
