package web

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file distributes the changes of the cluster to all pages of one user. There is one watch for any number of
// pages, and each thing is encoded once. A page has only a position in the sequence of changes. If a thing changes
// several times before a page reads, the page gets only the last state. A page that does not read uses no memory.

const (
	// maxPiece limits the changes in one piece. The first of 10,000 nodes are shown before the last arrive, and
	// a page that does not read holds at most one piece.
	maxPiece = 100
	// The limits of remembered texts, finished jobs, and reasons.
	maxTold, maxOver, maxGroups = 500, 2_000, 4_096
	// lingerFor is how long the watch continues after the last page has closed, for a page that is reloaded.
	lingerFor = 10 * time.Second
	// awayPause is the pause before a retry if the scheduler is unreachable.
	awayPause = time.Second
)

// The kinds of things. Their keys start with these names.
const (
	kindJob   = "job"
	kindBox   = "box"
	kindGroup = "group"
	kindTold  = "told"
	kindGone  = "gone" // a node that is no longer shown
)

// thing holds the current state of one job, node or reason.
type thing struct {
	kind  string
	value any
	text  []byte // JSON of value, encoded on first use
	at    uint64 // its last change; 0: dropped
}

// change is one position in the sequence. If the thing has changed again since then, the entry is obsolete.
type change struct {
	at uint64
	of *thing
}

// hub holds the state for all pages of one user.
type hub struct {
	mu      sync.Mutex
	things  map[string]*thing
	order   []change
	at      uint64 // the last change
	fresh   uint64 // at this change, all earlier state was forgotten
	synced  bool   // the initial state is complete
	placed  bool   // the initial state has all nodes
	away    string // why the scheduler is unreachable now
	barred  bool   // the user may not read jobs or nodes
	seq     uint64
	told    []toldText // in the order of time
	over    []string
	groups  []string
	readers int
	wake    chan struct{} // closed at the next change
	cancel  context.CancelFunc
}

func newHub() *hub { return &hub{things: map[string]*thing{}, wake: make(chan struct{})} }

// put sets the state of a thing. The caller holds the lock.
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

// drop removes a thing.
func (h *hub) drop(kind, id string) {
	if t := h.things[kind+"/"+id]; t != nil {
		t.at = 0
		delete(h.things, kind+"/"+id)
	}
}

// bound adds an ID to a limited list, and drops the oldest thing beyond the limit.
func (h *hub) bound(kind string, ids *[]string, id string, most int) {
	if *ids = append(*ids, id); len(*ids) > most {
		h.drop(kind, (*ids)[0])
		*ids = (*ids)[1:]
	}
}

// note processes an event.
func (h *hub) note(e *messages.Event) {
	h.seq = max(h.seq, e.GetSeq())
	h.synced = h.synced || e.GetSynced()
	h.placed = h.placed || h.synced || e.GetJob() != nil // nodes come before jobs
	of := ""
	switch {
	case e.GetJob() != nil:
		id, r := e.GetJob().GetRecord().GetId(), rowOf(e.GetJob())
		before := h.things[kindJob+"/"+id]
		if r.Over && (before == nil || !before.value.(jobRow).Over) {
			h.bound(kindJob, &h.over, id, maxOver)
		}
		r.Started = startedOf(before, &r, e.GetAtUnixMs())
		r.keepMeasured(before)
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
		h.tell(said{e.GetAtUnixMs(), of, e.GetJob().GetRecord().GetSpec().Called(), e.GetText()})
	}
}

// toldText is a remembered text.
type toldText struct {
	at int64
	id string
}

// tell remembers a text. Beyond the limit, it forgets the text with the earliest time: the state at the beginning of a
// watch is not in the order of time.
func (h *hub) tell(s said) {
	one := toldText{s.At, key(h.at + 1)}
	h.put(kindTold, one.id, s)
	at, _ := slices.BinarySearchFunc(h.told, one.at+1, func(t toldText, at int64) int { return cmp.Compare(t.at, at) })
	if h.told = slices.Insert(h.told, at, one); len(h.told) > maxTold {
		h.drop(kindTold, h.told[0].id)
		h.told = h.told[1:]
	}
}

// startedOf returns when a job started. The event of a start comes before the start time is written, so until then the
// time of the event counts.
func startedOf(before *thing, r *jobRow, now int64) int64 {
	if r.Started > 0 || r.Phase != messages.PhaseRunning {
		return r.Started
	}
	if before != nil {
		if last := before.value.(jobRow); last.Phase == r.Phase && last.Runs == r.Runs && last.Started > 0 {
			return last.Started
		}
	}
	return now
}

// change runs a function that changes the state, and wakes the waiting pages.
func (h *hub) change(how func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	how()
	close(h.wake)
	h.wake = make(chan struct{})
}

// start returns the position before the first change, and that of the last one.
func (h *hub) start() (fresh, last uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.fresh, h.at
}

// boxes returns the next nodes between two positions that have not changed after the last one, and the new position.
func (h *hub) boxes(since, last uint64) (texts []json.RawMessage, at uint64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, c := range h.order[h.after(since):] {
		if c.at > last || len(texts) == maxPiece {
			break
		}
		if since = c.at; c.of.at == c.at && c.of.kind == kindBox {
			texts = append(texts, c.of.encoded())
		}
	}
	return texts, since
}

// after returns the index of the first change after a position. The caller holds the lock.
func (h *hub) after(since uint64) int {
	at, _ := slices.BinarySearchFunc(h.order, since+1, func(c change, at uint64) int { return int(int64(c.at - at)) })
	return at
}

// encoded returns the JSON of a thing. The caller holds the lock.
func (t *thing) encoded() json.RawMessage {
	if t.text == nil {
		t.text = textOf(t)
	}
	return t.text
}

// next returns the next piece for a page at a position, and the new position. The page already has the nodes that have
// not changed since the position known. wake is closed when there is more.
func (h *hub) next(since uint64, away string, known uint64) (p piece, at uint64, wake <-chan struct{}) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if since < h.fresh || since > h.at {
		since, p.Fresh = h.fresh, true
	}
	from := h.after(since)
	at, p.Changes = since, make([]json.RawMessage, 0, min(len(h.order)-from, maxPiece))
	for _, c := range h.order[from:] {
		if len(p.Changes) == maxPiece {
			break
		}
		if at = c.at; c.of.at != c.at {
			continue
		}
		if c.of.kind == kindBox && at <= known && !p.Fresh {
			continue
		}
		p.Changes = append(p.Changes, c.of.encoded())
	}
	p.Seq, p.Synced = h.seq, h.synced && len(p.Changes) < maxPiece
	if now := h.away; now != away || p.Fresh {
		p.Away, p.Barred = &now, h.barred
	}
	wake = h.wake
	if len(p.Changes) == maxPiece {
		wake = closed
	}
	return p, at, wake
}

// closed is a channel that is already closed.
var closed = func() chan struct{} { c := make(chan struct{}); close(c); return c }()

// textOf encodes a thing for a page.
func textOf(t *thing) []byte {
	text, err := json.Marshal([2]any{t.kind, t.value})
	if err != nil {
		panic(err) // it contains only texts and numbers
	}
	return bytes.Clone(text)
}

// follow watches the scheduler until the hub ends. It waits for an unreachable scheduler, and tells the pages about
// it.
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
		code, _ := p.o.Said(err)
		h.change(func() { h.leave(why, err != nil && code == messages.Code_CODE_NOT_ALLOWED) })
		select {
		case <-ctx.Done():
		case <-time.After(awayPause):
		}
	}
}

func (p *Page) watch(ctx context.Context, on api.SynapseClient, h *hub) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := on.Watch(ctx, &messages.Watch{Jobs: true, Nodes: true, Present: true, Reasons: true, Books: true,
		Progress: true})
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

// leave notes why the watch has ended. If the user has lost the right to watch, the pages also lose the state.
func (h *hub) leave(why string, barred bool) {
	if barred && !h.barred {
		h.forget()
	}
	h.away, h.barred = why, barred
}

// forget clears the state for every page.
func (h *hub) forget() {
	h.at++
	h.fresh, h.things, h.order = h.at, map[string]*thing{}, nil
	h.barred = false
	h.synced, h.placed, h.away, h.seq, h.told, h.over, h.groups = false, false, "", 0, nil, nil, nil
}

// enter returns the hub of a user for one more page, or nil if there are too many pages. Call leave when the page
// closes.
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

// take counts one more open answer, if the limit permits it. give counts its end.
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

// end ends a hub without pages.
func (p *Page) end(whom string, h *hub) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if h.readers == 0 && p.hubs[whom] == h {
		delete(p.hubs, whom)
		h.cancel()
	}
}
