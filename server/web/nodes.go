package web

import (
	"context"
	"net/http"
	"time"
)

// This file answers with all nodes at once. A browser requests them together with the script of the page, so the map
// is drawn before the stream begins. The stream repeats the nodes.

// begun tells the browser with the start page that the browser also needs the nodes.
func begun(shown http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			w.Header().Set("Link", `</nodes>; rel=preload; as=fetch; crossorigin`)
		}
		shown.ServeHTTP(w, r)
	})
}

// nodes answers with all nodes, as one piece. If the user may not read them or the scheduler is unreachable, the answer
// has no nodes, and the stream says why.
func (p *Page) nodes(w http.ResponseWriter, r *http.Request) {
	h, leave := p.hubFor(w, r)
	if h == nil {
		return
	}
	defer leave()
	p.awaitNodes(r.Context(), h)
	fresh, last := h.start()
	var all piece
	for at := fresh; ; {
		texts, next := h.boxes(at, last)
		if len(texts) == 0 {
			break
		}
		all.Changes, at = append(all.Changes, texts...), next
	}
	w.Header().Set("Content-Type", "application/json")
	p.write(w, "", all, "\n")
}

// awaitNodes waits until a hub has all nodes, or why it has none.
func (p *Page) awaitNodes(ctx context.Context, h *hub) {
	late := time.After(p.patience)
	for {
		h.mu.Lock()
		ready, wake := h.placed || h.away != "", h.wake
		h.mu.Unlock()
		if ready {
			return
		}
		select {
		case <-wake:
		case <-late:
			return
		case <-ctx.Done():
			return
		}
	}
}
