package web

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
)

// TestNodesAtOnce checks that the start page tells the browser to request the nodes, that the answer waits until there
// are all of them and not for the jobs, and that it has the same texts as the stream.
func TestNodesAtOnce(t *testing.T) {
	s := &scheduler{events: make(chan *messages.Event, 3*maxPiece)}
	d := serve(t, s).enter()
	if answer, _ := d.ask("GET", "/", "", nil); !strings.HasPrefix(answer.Header.Get("Link"), "</nodes>; rel=preload") {
		t.Errorf("the start page has the link %q", answer.Header.Get("Link"))
	}
	type said struct {
		answer *http.Response
		text   string
	}
	answers := make(chan said, 1)
	go func() {
		answer, text := d.ask("GET", "/nodes", "", nil)
		answers <- said{answer, text}
	}()
	for i := range 2*maxPiece + 5 {
		s.events <- nodeEvent(uint64(i), fmt.Sprint("n", i), "")
	}
	select {
	case got := <-answers:
		t.Fatalf("it answers before it knows all nodes: %s", got.text)
	case <-time.After(50 * time.Millisecond):
	}
	s.events <- &messages.Event{Seq: 999, Job: confidential()}
	got := <-answers
	var all piece
	if err := json.Unmarshal([]byte(got.text), &all); err != nil || len(all.Changes) != 2*maxPiece+5 || all.Fresh ||
		all.Synced {
		t.Fatalf("%v: %d nodes in %.200s", err, len(all.Changes), got.text)
	}
	if strings.Count(got.text, `["box",{"id":"n`) != 2*maxPiece+5 ||
		got.answer.Header.Get("Content-Type") != "application/json" {
		t.Errorf("%v has other things: %.200s", got.answer.Header, got.text)
	}
}

// TestNoNodesAtOnce checks that a cluster without nodes, and a scheduler that is unreachable, answer with no nodes.
func TestNoNodesAtOnce(t *testing.T) {
	s := &scheduler{events: make(chan *messages.Event, 1)}
	d := serve(t, s).enter()
	s.events <- &messages.Event{Synced: true}
	if answer, text := d.ask("GET", "/nodes", "", nil); answer.StatusCode != http.StatusOK ||
		strings.Contains(text, "changes") {
		t.Errorf("%s %s", answer.Status, text)
	}
	gone := &scheduler{events: make(chan *messages.Event)}
	close(gone.events)
	if answer, text := serve(t, gone).enter().ask("GET", "/nodes", "", nil); answer.StatusCode != http.StatusOK ||
		strings.Contains(text, "changes") {
		t.Errorf("%s %s", answer.Status, text)
	}
}
