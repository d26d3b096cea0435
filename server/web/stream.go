package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// This file owns how a page is sent what changes: one stream, in pieces. What came since the last piece goes with the
// next one, so that a hundred changes a second are ten pieces.

const (
	// pieceEvery is how long changes are collected for a piece.
	pieceEvery = 100 * time.Millisecond
	// maxStreams bounds the open streams: pages of one browser share one.
	maxStreams = 1_024
)

// piece has what changed, in its order. Where Fresh is set, all that was known is forgotten first.
type piece struct {
	Fresh   bool              `json:"fresh,omitempty"`
	Synced  bool              `json:"synced,omitempty"` // all that there is has come
	Now     int64             `json:"now"`
	Seq     uint64            `json:"seq,omitempty"`
	Changes []json.RawMessage `json:"changes,omitempty"` // each a kind, and what it is now
	Away    *string           `json:"away,omitempty"`    // why nothing comes at the moment; empty: it comes again
}

type groupReason struct {
	Group uint64 `json:"group"`
	Why   string `json:"why"`
}

// said is a change in words.
type said struct {
	At   int64  `json:"at"`
	Of   string `json:"of"`
	Text string `json:"text"`
}

func key(n uint64) string { return strconv.FormatUint(n, 36) }

// stream sends a browser all that there is, and each change from then on, until it goes.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	h, leave := p.enter(guestOf(r))
	if h == nil {
		http.Error(w, "too many pages are open: close one", http.StatusTooManyRequests)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	// The request has been read, and nothing more comes: a time for reading would end the stream.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	since, away, synced := uint64(0), "", false
	for idle := false; r.Context().Err() == nil; {
		next, at, wake := h.next(since, away)
		news := at != since || next.Away != nil || next.Synced != synced
		if next.Away != nil {
			away = *next.Away
		}
		since, synced = at, next.Synced
		if (news || idle) && !p.send(w, next) {
			return
		}
		if len(next.Changes) < maxPiece { // or there is more at once
			idle = p.rest(r.Context(), wake)
		}
	}
}

// rest waits until there is more, and a little longer. It reports whether there was nothing for so long that something
// is to be written all the same, by which a browser that is gone is noticed.
func (p *Page) rest(ctx context.Context, wake <-chan struct{}) (idle bool) {
	select {
	case <-ctx.Done():
		return false
	case <-wake:
	case <-time.After(p.patience):
		idle = true
	}
	select {
	case <-ctx.Done():
	case <-time.After(pieceEvery):
	}
	return idle
}

// send writes a piece, and reports whether there may be another one. The changes are written as they lie in the hub,
// which many have in common: a copy of each would be held for everybody who does not read.
func (p *Page) send(w http.ResponseWriter, of piece) bool {
	changes := of.Changes
	of.Now, of.Changes = time.Now().UnixMilli(), nil
	head, err := json.Marshal(of)
	if err != nil {
		return false
	}
	out := http.NewResponseController(w)
	_ = out.SetWriteDeadline(time.Now().Add(p.patience))
	write := func(text []byte) {
		if err == nil {
			_, err = w.Write(text)
		}
	}
	write([]byte("data: "))
	write(head[:len(head)-1])
	next := []byte(`,"changes":[`)
	for _, change := range changes {
		write(next)
		write(change)
		next = []byte(",")
	}
	if len(changes) > 0 {
		write([]byte("]"))
	}
	write([]byte("}\n\n"))
	return err == nil && out.Flush() == nil
}
