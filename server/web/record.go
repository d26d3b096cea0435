package web

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file makes a recording: the data that a viewer may see of a cluster, for later playback without the cluster.
// It contains the pieces of a page's stream, one per line, and the details of a job at each change of its phase.
// Like pages, it contains no output, commands or environments.

const (
	// recordEvery is the interval for writing changes as a line. recordSeldom is the interval of requests for
	// data that no change reports.
	recordEvery  = time.Second
	recordSeldom = 5 * time.Second
	// maxDetails limits the jobs with details per line.
	maxDetails = 50
	// MaxRecord limits the size of a recording, because a browser must hold it in memory.
	MaxRecord = 256 << 20
)

// The kinds of things in a recording that a stream does not have.
const (
	kindMe     = "me"
	kindStarts = "starts"
	kindQueues = "queues"
	kindDetail = "detail"
)

// recorder writes one recording.
type recorder struct {
	page   *Page
	on     api.SynapseClient
	to     io.Writer
	phases map[string]string // of the jobs with details in the recording
	asked  time.Time         // time of the last request for unreported data
	size   int64
}

// Record writes what a viewer may see, until the context ends or the limit is reached. full reports that the limit
// was reached.
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
		next, at, wake := h.next(since, away, 0)
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

// more returns the data that the changes do not contain. It omits what cannot be read now.
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
		reply.Barred = nil // depends on the recording user, not on the viewer
		all = append(all, entry(kindQueues, queuesOf(reply)))
	}
	return all
}
