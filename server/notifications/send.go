package notifications

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/yi-json/synapse/clock/backoff"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns how notifications get from the leader's own watch to those that are told. Each rule has a queue of its
// own, so that one who does not answer keeps nobody else waiting.

const (
	maxQueue   = 256 // notifications that one rule has waiting; what comes beyond is lost, and said to be
	tries      = 5
	firstPause = time.Second
	mostPause  = 30 * time.Second
	firstAgain = 50 * time.Millisecond // a leader that has just taken over is not ready, and will be soon
	mostAgain  = 2 * time.Second
	noteEvery  = 5 * time.Second
	noteFile   = "notified.json"
)

// Options configure a notifier.
type Options struct {
	Cluster string
	Rules   []Rule
	API     api.SynapseClient
	Dir     string // for the note of what was told, which outlives a restart; empty: there is none
	WallMs  func() int64
	Log     func(format string, args ...any)
	// Pause waits; it ends early with its context. Nil: a timer does it.
	Pause func(ctx context.Context, d time.Duration)
}

// Notifier tells others.
type Notifier struct {
	o      Options
	sight  *sight
	queues []chan *Notification
	lost   []int // notifications that found a rule's queue full, since it last had room
	noted  int64
}

// New makes one, for as long as this process leads.
func New(o Options) *Notifier {
	if o.Pause == nil {
		o.Pause = pause
	}
	n := &Notifier{o: o, lost: make([]int, len(o.Rules))}
	for range o.Rules {
		n.queues = append(n.queues, make(chan *Notification, maxQueue))
	}
	n.sight = n.recall()
	return n
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// Run tells until the context ends.
func (n *Notifier) Run(ctx context.Context) {
	for i := range n.o.Rules {
		go n.deliver(ctx, &n.o.Rules[i], n.queues[i])
	}
	n.note() // killed before anything was told, the next begins here
	for again := time.Duration(0); ctx.Err() == nil; {
		if n.follow(ctx) { // why it ended, readiness tells: the watch is this process's own
			again = 0
		}
		n.note()
		again = backoff.Next(again, firstAgain, mostAgain)
		n.o.Pause(ctx, again)
	}
}

// follow watches until the watch breaks, and reports whether it had begun.
func (n *Notifier) follow(ctx context.Context) bool {
	return api.Follow(ctx, n.o.API, &messages.Watch{Jobs: true, Nodes: true, Present: true}, func(e *messages.Event) {
		news := n.sight.take(e)
		for _, one := range news {
			n.tell(one)
		}
		if len(news) > 0 && n.o.WallMs() >= n.noted+noteEvery.Milliseconds() {
			n.note()
		}
	})
}

// tell puts a notification into the queue of each rule that is about it.
func (n *Notifier) tell(one *Notification) {
	one.APIVersion, one.Kind, one.Cluster, one.AtMs = "synapse/v1", "Notification", n.o.Cluster, n.o.WallMs()
	for i := range n.o.Rules {
		if !n.o.Rules[i].wants(one) {
			continue
		}
		its := *one
		its.Rule = n.o.Rules[i].Name
		select {
		case n.queues[i] <- &its:
			if n.lost[i] > 0 {
				n.o.Log("notify.%s: %d notifications were lost", its.Rule, n.lost[i])
				n.lost[i] = 0
			}
		default:
			if n.lost[i]++; n.lost[i] == 1 {
				n.o.Log("notify.%s: the receiver is too slow: notifications are lost from now "+
					"on", its.Rule)
			}
		}
	}
}

// deliver tells one rule's notifications, one after the other.
func (n *Notifier) deliver(ctx context.Context, r *Rule, from <-chan *Notification) {
	for {
		select {
		case <-ctx.Done():
			return
		case one := <-from:
			n.try(ctx, r, one)
		}
	}
}

// try tells one, several times if need be.
func (n *Notifier) try(ctx context.Context, r *Rule, one *Notification) {
	var err error
	for k := range tries {
		if k > 0 {
			n.o.Pause(ctx, backoff.After(k, firstPause, mostPause))
		}
		if ctx.Err() != nil {
			return
		}
		if err = r.Tell(ctx, one); err == nil {
			return
		}
	}
	n.o.Log("notify.%s: not delivered: %s (%d tries): %v", r.Name, one.Text, tries, err)
}

// noted is the note: which ends of jobs have been told.
type noted struct {
	Until int64            `json:"untilUnixMs"`
	Jobs  map[string]int64 `json:"jobs"`
}

// recall begins where the note of this folder ends, else now.
func (n *Notifier) recall() *sight {
	now := n.o.WallMs()
	text, err := os.ReadFile(filepath.Join(n.o.Dir, noteFile))
	var t noted
	if n.o.Dir == "" || err != nil || json.Unmarshal(text, &t) != nil || t.Until <= 0 || t.Until > now {
		return newSight(now, nil)
	}
	return newSight(t.Until, t.Jobs)
}

// note writes the note. What cannot be written is told again after a restart, and no more comes of it.
func (n *Notifier) note() {
	n.noted = n.o.WallMs()
	if n.o.Dir == "" {
		return
	}
	text, err := json.Marshal(noted{n.sight.since, n.sight.told})
	if err != nil {
		return
	}
	path := filepath.Join(n.o.Dir, noteFile)
	if os.WriteFile(path+".new", text, 0o600) == nil {
		_ = os.Rename(path+".new", path)
	}
}
