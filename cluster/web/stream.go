package web

import (
	"context"
	"encoding/json"
	"net/http"
	"sync"
	"time"

	"github.com/yi-json/synapse/cluster/api"
	"github.com/yi-json/synapse/messages"
)

// This file owns what a page sees of the cluster as it changes: one stream, over the scheduler's own watch. What came
// since the last piece goes with the next one, so that a hundred changes a second are ten pieces.

const (
	// pieceEvery is how long changes are collected for a piece.
	pieceEvery = 100 * time.Millisecond
	// maxPiece bounds how many changes are in one: the first of ten thousand machines are drawn before the last has come.
	maxPiece = 1_000
	// maxBehind is how many changes may wait for a browser that does not read. Then the scheduler's watch is left unread,
	// which ends it, and the browser begins again with what there is.
	maxBehind = 4 * maxPiece
	// maxStreams bounds the open streams: pages of one browser share one.
	maxStreams = 64
	// awayPause is before the next try where the scheduler is away.
	awayPause = time.Second
)

// piece is what changed. Where Fresh is set, all that was known is forgotten first.
type piece struct {
	Fresh  bool     `json:"fresh,omitempty"`
	Synced bool     `json:"synced,omitempty"` // all that there is has come
	Now    int64    `json:"now"`
	Seq    uint64   `json:"seq,omitempty"`
	Jobs   []row    `json:"jobs,omitempty"`
	Boxes  []box    `json:"boxes,omitempty"`
	Gone   []string `json:"gone,omitempty"`   // machines that are no longer shown
	Groups []group  `json:"groups,omitempty"` // of waiting jobs that have another reason now
	Told   []said   `json:"told,omitempty"`
	Away   string   `json:"away,omitempty"` // why nothing comes at the moment
}

type group struct {
	Group uint64 `json:"group"`
	Why   string `json:"why"`
}

// said is a change in words.
type said struct {
	At   int64  `json:"at"`
	Of   string `json:"of"`
	Text string `json:"text"`
}

// note takes an event into the piece.
func (p *piece) note(e *messages.Event) {
	p.Seq = max(p.Seq, e.GetSeq())
	p.Synced = p.Synced || e.GetSynced()
	of := ""
	switch {
	case e.GetJob() != nil:
		p.Jobs, of = append(p.Jobs, rowOf(e.GetJob())), "job/"+e.GetJob().GetRecord().GetId()
	case e.GetNode() != nil && e.GetHidden():
		p.Gone, of = append(p.Gone, e.GetNode().GetRecord().GetId()), "node/"+e.GetNode().GetRecord().GetId()
	case e.GetNode() != nil:
		p.Boxes, of = append(p.Boxes, boxOf(e.GetNode())), "node/"+e.GetNode().GetRecord().GetId()
	case e.GetGroup() != 0:
		p.Groups = append(p.Groups, group{e.GetGroup(), e.GetReason()})
	}
	if of != "" && e.GetText() != "" {
		p.Told = append(p.Told, said{e.GetAtUnixMs(), of, e.GetText()})
	}
}

// size is how many changes it has.
func (p *piece) size() int { return len(p.Jobs) + len(p.Boxes) + len(p.Gone) + len(p.Groups) }

// outbox holds the pieces that wait to be written.
type outbox struct {
	mu    sync.Mutex
	room  sync.Cond // somebody has read
	wake  chan struct{}
	piece piece
	over  bool
}

// put adds a change, and waits where the browser is far behind.
func (o *outbox) put(change func(*piece)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for o.piece.size() >= maxBehind && !o.over {
		o.room.Wait()
	}
	change(&o.piece)
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

// take is what there is to write.
func (o *outbox) take() piece {
	o.mu.Lock()
	defer o.mu.Unlock()
	p := o.piece
	o.piece = piece{}
	o.room.Broadcast()
	return p
}

func (o *outbox) end() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.over = true
	o.room.Broadcast()
}

// stream sends a browser all that there is, and each change from then on, until it goes.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	if !p.enter() {
		http.Error(w, "too many pages are open; close one", http.StatusTooManyRequests)
		return
	}
	defer p.leave()
	w.Header().Set("Content-Type", "text/event-stream")
	// The request has been read, and nothing more comes: a time for reading would end the stream.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	o := &outbox{wake: make(chan struct{}, 1)}
	o.room.L = &o.mu
	go p.follow(ctx, asked(r), o)
	defer o.end()
	for p.write(ctx, w, o) {
	}
}

// write sends the next piece, and reports whether there may be another one.
func (p *Page) write(ctx context.Context, w http.ResponseWriter, o *outbox) bool {
	select {
	case <-ctx.Done():
		return false
	case <-o.wake:
	case <-time.After(writeTimeout): // a browser that is gone is noticed by writing
	}
	next := o.take()
	next.Now = time.Now().UnixMilli()
	text, err := json.Marshal(next)
	if err != nil {
		return false
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Now().Add(writeTimeout))
	if _, err := w.Write(append(append([]byte("data: "), text...), '\n', '\n')); err != nil || out.Flush() != nil {
		return false
	}
	time.Sleep(pieceEvery)
	return ctx.Err() == nil
}

// follow watches the scheduler until the browser goes. One that is away is waited for, and said to be.
func (p *Page) follow(ctx context.Context, on api.SynapseClient, o *outbox) {
	for ctx.Err() == nil {
		err := p.watch(ctx, on, o)
		if ctx.Err() != nil {
			return
		}
		why := "the scheduler ended the stream"
		if err != nil {
			why = p.words(err)
		}
		o.put(func(p *piece) { p.Away = why })
		select {
		case <-ctx.Done():
		case <-time.After(awayPause):
		}
	}
}

func (p *Page) watch(ctx context.Context, on api.SynapseClient, o *outbox) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := on.Watch(ctx, &messages.Watch{Jobs: true, Nodes: true, Present: true, Reasons: true, Books: true})
	if err != nil {
		return err
	}
	first := true
	for {
		e, err := from.Recv()
		if err != nil {
			return err
		}
		o.put(func(p *piece) {
			if first {
				*p = piece{Fresh: true}
				first = false
			}
			p.note(e)
		})
	}
}

// enter counts an open stream, where there may be one more.
func (p *Page) enter() bool {
	p.open.Lock()
	defer p.open.Unlock()
	if p.streams >= maxStreams {
		return false
	}
	p.streams++
	return true
}

func (p *Page) leave() {
	p.open.Lock()
	defer p.open.Unlock()
	p.streams--
}
