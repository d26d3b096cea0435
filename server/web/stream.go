package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"
)

// This file sends changes to a page in one stream of pieces. Changes since the last piece are sent together, so
// that 100 changes per second become ten pieces.

const (
	// pieceEvery is the interval of pieces.
	pieceEvery = 100 * time.Millisecond
	// maxStreams limits the open streams. Pages of one browser share one stream.
	maxStreams = 1_024
)

// piece holds changes in order. If Fresh is set, the page first clears its state.
type piece struct {
	Fresh   bool              `json:"fresh,omitempty"`
	Synced  bool              `json:"synced,omitempty"` // the initial state is complete
	Now     int64             `json:"now"`
	Seq     uint64            `json:"seq,omitempty"`
	Changes []json.RawMessage `json:"changes,omitempty"` // each a kind and the current state
	Away    *string           `json:"away,omitempty"`    // why the scheduler is unreachable; empty: it is reachable again
	Barred  bool              `json:"barred,omitempty"`  // with Away: the user may not read jobs or nodes
}

type groupReason struct {
	Group uint64 `json:"group"`
	Why   string `json:"why"`
}

// said is the text of a change.
type said struct {
	At   int64  `json:"at"`
	Of   string `json:"of"`
	Name string `json:"name,omitempty"` // of the job
	Text string `json:"text"`
}

func key(n uint64) string { return strconv.FormatUint(n, 36) }

// stream sends the complete state to a browser, and then each change until the browser disconnects.
func (p *Page) stream(w http.ResponseWriter, r *http.Request) {
	h, leave := p.hubFor(w, r)
	if h == nil {
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	// The request is complete. A read deadline would end the stream.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	since, known, ok := p.sendBoxes(w, h)
	away, synced := "", false
	if !ok {
		return
	}
	for idle := false; r.Context().Err() == nil; {
		next, at, wake := h.next(since, away, known)
		news := at != since || next.Away != nil || next.Synced != synced
		if next.Away != nil {
			away = *next.Away
		}
		since, synced = at, next.Synced
		if (news || idle) && !p.send(w, next) {
			return
		}
		if len(next.Changes) < maxPiece { // otherwise more changes are available at once
			idle = p.rest(r.Context(), wake)
		}
	}
}

// hubFor returns the hub of the request's user, and a function to call at the end of the answer. It returns nil if it
// has answered, because too many pages are open.
func (p *Page) hubFor(w http.ResponseWriter, r *http.Request) (h *hub, leave func()) {
	if h, leave = p.enter(guestOf(r)); h == nil {
		http.Error(w, "too many pages are open: close one", http.StatusTooManyRequests)
	}
	return h, leave
}

// sendBoxes sends the nodes to a new page, if there are any, so that the page can draw its map before it has thousands
// of jobs. It returns the position of the page in the changes, and the position up to which the page has the nodes. It
// reports whether the stream can continue.
func (p *Page) sendBoxes(w http.ResponseWriter, h *hub) (since, known uint64, ok bool) {
	fresh, last := h.start()
	next, at := piece{Fresh: true}, fresh
	for {
		if next.Changes, at = h.boxes(at, last); len(next.Changes) == 0 {
			break
		}
		if !p.send(w, next) {
			return 0, 0, false
		}
		next.Fresh = false
	}
	if next.Fresh {
		return 0, 0, true
	}
	return fresh, last, true
}

// rest waits until there is more, and a moment longer. It reports whether nothing arrived for a long time. Then an
// empty piece is sent to detect a lost browser.
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

// send writes a piece of the stream, and reports whether the stream can continue.
func (p *Page) send(w http.ResponseWriter, of piece) bool { return p.write(w, "data: ", of, "\n\n") }

// write writes a piece between two texts, and reports whether the browser reads it. It writes the texts of the hub
// without a copy, because a copy for each slow reader would use much memory.
func (p *Page) write(w http.ResponseWriter, before string, of piece, after string) bool {
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
	write([]byte(before))
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
	write([]byte("}" + after))
	return err == nil && out.Flush() == nil
}
