package web

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns a record: what a viewer may see of a cluster while it is made, for whoever looks at it later without
// one. It is what pages are sent, a piece a line, and of each job more as often as its phase changes. No output,
// command or environment is in it, because none is in what pages are sent.

const (
	// recordEvery is how long changes are collected for a line, and recordSeldom after how long it is asked again what
	// no change tells.
	recordEvery  = time.Second
	recordSeldom = 5 * time.Second
	// maxDetails bounds the jobs of which a line has more.
	maxDetails = 50
	// MaxRecord bounds a record: a browser has to hold it.
	MaxRecord = 256 << 20
)

// The kinds that a record has beside those of a stream.
const (
	kindMe     = "me"
	kindStarts = "starts"
	kindQueues = "queues"
	kindDetail = "detail"
)

// recorder writes one.
type recorder struct {
	page   *Page
	on     api.SynapseClient
	to     io.Writer
	phases map[string]string // of jobs, as the record has them in full
	asked  time.Time         // when it was last asked what no change tells
	size   int64
}

// Record writes what a viewer may see, until the context ends or there is as much as a record may have; that is
// reported by full.
func Record(ctx context.Context, o Options, to io.Writer) (size int64, full bool, err error) {
	o.Open = true
	p := New(o)
	h, leave := p.enter(&Guest{API: o.API})
	defer h.cancel()
	defer leave()
	r := &recorder{page: p, on: o.API, to: to, phases: map[string]string{}}
	who, err := p.who(ctx, o.API)
	if err != nil {
		return 0, false, err
	}
	who.Name, who.Role, who.All, who.May = "recording", "viewer", false, map[string]bool{}
	if err := r.line(piece{Changes: []json.RawMessage{entry(kindMe, who)}}); err != nil {
		return r.size, false, err
	}
	since, away := uint64(0), ""
	for ctx.Err() == nil && r.size < MaxRecord {
		next, at, wake := h.next(since, away)
		if next.Away != nil {
			away = *next.Away
		}
		next.Changes = append(next.Changes, r.more(ctx, next.Changes)...)
		if news := at != since || next.Away != nil || len(next.Changes) > 0; news {
			if err := r.line(next); err != nil {
				return r.size, false, err
			}
		}
		since = at
		if wake == closed {
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(recordEvery):
		}
	}
	return r.size, r.size >= MaxRecord, nil
}

func (r *recorder) line(p piece) error {
	p.Now = time.Now().UnixMilli()
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	n, err := r.to.Write(append(text, '\n'))
	r.size += int64(n)
	return err
}

func entry(kind string, value any) json.RawMessage { return textOf(&thing{kind: kind, value: value}) }

// more returns what the changes do not tell themselves. What cannot be asked at the moment is left out.
func (r *recorder) more(ctx context.Context, changes []json.RawMessage) (all []json.RawMessage) {
	for _, text := range changes {
		var of []json.RawMessage
		var job jobRow
		if json.Unmarshal(text, &of) != nil || string(of[0]) != `"job"` || json.Unmarshal(of[1], &job) != nil ||
			r.phases[job.ID] == job.Phase || len(all) >= maxDetails {
			continue
		}
		if d, err := detailOf(ctx, r.on, job.ID, 0); err == nil {
			r.phases[job.ID] = job.Phase
			all = append(all, entry(kindDetail, d))
		}
		if job.Over {
			delete(r.phases, job.ID)
		}
	}
	if time.Since(r.asked) < recordSeldom {
		return all
	}
	r.asked = time.Now()
	if starts, err := startsOf(ctx, r.on); err == nil {
		all = append(all, entry(kindStarts, starts))
	}
	if reply, err := r.on.GetQueues(ctx, &messages.GetQueues{}); err == nil {
		reply.Barred = nil // that is about who records, and not about who looks
		all = append(all, entry(kindQueues, queuesOf(reply)))
	}
	return all
}
