package web

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns what the pages of one person are shown of the cluster as it changes: one watch for all of them,
// however many are open, and each thing written as JSON once. A page has a place in the order of changes and nothing
// else: of what changed again while it did not read, it is sent the last alone, and one that reads nothing holds
// nothing.

const (
	// maxPiece bounds how many changes are in one piece: the first of ten thousand machines are drawn before the last has
	// come, and little is held for each page that does not read: the piece that is being written to it.
	maxPiece = 100
	// What is kept of what was said, of jobs that have ended, and of reasons.
	maxTold, maxOver, maxGroups = 500, 2_000, 4_096
	// lingerFor is how long the watch stays after the last page has gone: one that is loaded again finds it there.
	lingerFor = 10 * time.Second
	// awayPause is before the next try where the scheduler is away.
	awayPause = time.Second
)

// The kinds of things: their first letters begin the keys.
const (
	kindJob   = "job"
	kindBox   = "box"
	kindGroup = "group"
	kindTold  = "told"
	kindGone  = "gone" // a machine that is no longer shown
)

// thing has what a page is shown of one job, machine or reason: what it is now.
type thing struct {
	kind  string
	value any
	text  []byte // the same as JSON, once somebody has asked
	at    uint64 // its last change; 0: it is no longer kept
}

// change is one place in the order: of a thing that has changed since then, nothing stands there any more.
type change struct {
	at uint64
	of *thing
}

// hub has what all pages of one person are shown.
type hub struct {
	mu      sync.Mutex
	things  map[string]*thing
	order   []change
	at      uint64 // the last change
	fresh   uint64 // what was known before that change was forgotten then
	synced  bool   // all that there is has come
	away    string // why nothing comes at the moment
	seq     uint64
	told    []string // keys, the oldest first
	over    []string
	groups  []string
	readers int
	wake    chan struct{} // closed at the next change
	cancel  context.CancelFunc
}

func newHub() *hub { return &hub{things: map[string]*thing{}, wake: make(chan struct{})} }

// put notes what a thing is now. The lock is held.
func (h *hub) put(kind, id string, value any) {
	key := kind + "/" + id
	t := h.things[key]
	if t == nil {
		t = &thing{kind: kind}
		h.things[key] = t
	}
	h.at++
	t.value, t.text, t.at = value, nil, h.at
	h.order = append(h.order, change{h.at, t})
	if len(h.order) > 2*len(h.things)+maxPiece {
		h.order = slices.DeleteFunc(h.order, func(c change) bool { return c.of.at != c.at })
	}
}

// drop keeps a thing no longer.
func (h *hub) drop(kind, id string) {
	if t := h.things[kind+"/"+id]; t != nil {
		t.at = 0
		delete(h.things, kind+"/"+id)
	}
}

// bound drops the oldest of what is kept for a while alone.
func (h *hub) bound(kind string, ids *[]string, id string, most int) {
	if *ids = append(*ids, id); len(*ids) > most {
		h.drop(kind, (*ids)[0])
		*ids = (*ids)[1:]
	}
}

// note takes an event.
func (h *hub) note(e *messages.Event) {
	h.seq = max(h.seq, e.GetSeq())
	h.synced = h.synced || e.GetSynced()
	of := ""
	switch {
	case e.GetJob() != nil:
		id, r := e.GetJob().GetRecord().GetId(), rowOf(e.GetJob())
		if before := h.things[kindJob+"/"+id]; r.Over && (before == nil || !before.value.(jobRow).Over) {
			h.bound(kindJob, &h.over, id, maxOver)
		}
		h.put(kindJob, id, r)
		of = "job/" + id
	case e.GetNode() != nil:
		id := e.GetNode().GetRecord().GetId()
		of = "node/" + id
		if e.GetHidden() {
			h.drop(kindBox, id)
			h.put(kindGone, id, id)
			break
		}
		h.drop(kindGone, id)
		h.put(kindBox, id, boxOf(e.GetNode()))
	case e.GetGroup() != 0:
		id := key(e.GetGroup())
		if h.things[kindGroup+"/"+id] == nil {
			h.bound(kindGroup, &h.groups, id, maxGroups)
		}
		h.put(kindGroup, id, groupReason{e.GetGroup(), e.GetReason()})
	}
	if of != "" && e.GetText() != "" {
		id := key(h.at + 1)
		h.put(kindTold, id, said{e.GetAtUnixMs(), of, e.GetText()})
		h.bound(kindTold, &h.told, id, maxTold)
	}
}

// change changes what is known, and wakes who waits for that.
func (h *hub) change(how func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	how()
	close(h.wake)
	h.wake = make(chan struct{})
}

// next returns what a page is sent that has all up to a place, and up to where it has it then. Wake is closed when
// there is something more.
func (h *hub) next(since uint64, away string) (p piece, at uint64, wake <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since < h.fresh || since > h.at {
		since, p.Fresh = h.fresh, true
	}
	from, _ := slices.BinarySearchFunc(h.order, since+1, func(c change, at uint64) int { return int(int64(c.at - at)) })
	at, p.Changes = since, make([]json.RawMessage, 0, min(len(h.order)-from, maxPiece))
	for _, c := range h.order[from:] {
		if len(p.Changes) == maxPiece {
			break
		}
		if at = c.at; c.of.at != c.at {
			continue
		}
		if c.of.text == nil {
			c.of.text = textOf(c.of)
		}
		p.Changes = append(p.Changes, c.of.text)
	}
	p.Seq, p.Synced = h.seq, h.synced && len(p.Changes) < maxPiece
	if now := h.away; now != away || p.Fresh {
		p.Away = &now
	}
	wake = h.wake
	if len(p.Changes) == maxPiece {
		wake = closed
	}
	return p, at, wake
}

// closed wakes at once.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// textOf writes a thing as a page reads it.
func textOf(t *thing) []byte {
	text, err := json.Marshal([2]any{t.kind, t.value})
	if err != nil {
		panic(err) // it is made of words and numbers
	}
	return bytes.Clone(text)
}

// follow watches the scheduler until the hub ends. One that is away is waited for, and said to be.
func (p *Page) follow(ctx context.Context, on api.SynapseClient, h *hub) {
	for ctx.Err() == nil {
		err := p.watch(ctx, on, h)
		if ctx.Err() != nil {
			return
		}
		why := "the scheduler ended the stream"
		if err != nil {
			why = p.words(err)
		}
		h.change(func() { h.away = why })
		select {
		case <-ctx.Done():
		case <-time.After(awayPause):
		}
	}
}

func (p *Page) watch(ctx context.Context, on api.SynapseClient, h *hub) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := on.Watch(ctx, &messages.Watch{Jobs: true, Nodes: true, Present: true, Reasons: true, Books: true})
	if err != nil {
		return err
	}
	for first := true; ; first = false {
		e, err := from.Recv()
		if err != nil {
			return err
		}
		h.change(func() {
			if first {
				h.forget()
			}
			h.note(e)
		})
	}
}

// forget begins again from nothing, for every page.
func (h *hub) forget() {
	h.at++
	h.fresh, h.things, h.order = h.at, map[string]*thing{}, nil
	h.synced, h.away, h.seq, h.told, h.over, h.groups = false, "", 0, nil, nil, nil
}

// enter is the hub of a guest's pages, for one more of them; leave is for when that goes. Nil: there are too many.
func (p *Page) enter(of *Guest) (h *hub, leave func()) {
	if !p.take() {
		return nil, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if h = p.hubs[of.Whom]; h == nil {
		h = newHub()
		var ctx context.Context
		ctx, h.cancel = context.WithCancel(context.Background())
		p.hubs[of.Whom] = h
		go p.follow(ctx, of.API, h)
	}
	h.readers++
	return h, func() {
		p.give()
		p.mu.Lock()
		defer p.mu.Unlock()
		if h.readers--; h.readers == 0 {
			time.AfterFunc(p.linger, func() { p.end(of.Whom, h) })
		}
	}
}

// take counts an open answer, where there may be one more; give counts its end.
func (p *Page) take() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.streams >= maxStreams {
		return false
	}
	p.streams++
	return true
}

func (p *Page) give() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.streams--
}

// end ends a hub that nobody reads.
func (p *Page) end(whom string, h *hub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.readers == 0 && p.hubs[whom] == h {
		delete(p.hubs, whom)
		h.cancel()
	}
}
