package web

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns when the jobs that wait may start, and what is kept for whom. The answer is of all of them, in pages
// of the API, and may cost something where very many wait: so it is one for all pages of a person, and is good the
// longer, the longer it took.

const (
	waitingPage = 500
	// waitingFor is how long an answer is good at least, and waitingShare how much of the time may go into answers.
	waitingFor   = 4 * time.Second
	waitingShare = 50
)

// waitings are the last answers, by whose they are.
type waitings struct {
	mu  sync.Mutex
	all map[string]*waiting
}

type waiting struct {
	mu     sync.Mutex // held while it is asked
	starts []*start
	until  time.Time
}

// waiting is when the jobs that wait may start, and what is kept for whom.
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

// startsOf asks for all of them.
func startsOf(ctx context.Context, on api.SynapseClient) ([]*start, error) {
	starts, after := []*start{}, ""
	for {
		reply, err := on.ListJobs(ctx, &messages.ListJobs{Phases: []string{messages.PhaseQueued}, Limit: waitingPage,
			After: after})
		if err != nil {
			return nil, err
		}
		for _, j := range reply.GetJobs() {
			if s := startOf(j); s != nil {
				starts = append(starts, s)
			}
		}
		if after = reply.GetNext(); after == "" {
			return starts, nil
		}
	}
}
