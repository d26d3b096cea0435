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

// This file sends notifications from the leader's own watch to the receivers. Each rule has a separate queue, so
// that a slow receiver does not delay the others.

const (
	maxQueue   = 256 // waiting notifications per rule; more are dropped, which is logged
	tries      = 5
	firstPause = time.Second
	mostPause  = 30 * time.Second
	firstAgain = 50 * time.Millisecond // a new leader needs a moment until it is ready
	mostAgain  = 2 * time.Second
	noteEvery  = 5 * time.Second
	noteFile   = "notified.json"
)

// Options holds the settings of a notifier.
type Options struct {
	Cluster string
	Rules   []Rule
	API     api.SynapseClient
	Dir     string // folder of the note about sent notifications, for restarts; empty: no note
	WallMs  func() int64
	Log     func(format string, args ...any)
	// Pause waits, and returns early when its context ends. If nil, a timer is used.
	Pause func(ctx context.Context, d time.Duration)
}

// Notifier sends notifications.
type Notifier struct {
	o      Options
	sight  *sight
	queues []chan *Notification
	lost   []int // per rule, notifications dropped since its queue was last not full
	noted  int64
}

// New creates a notifier for the time in which this process leads.
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

// Run sends notifications until the context ends.
func (n *Notifier) Run(ctx context.Context) {
	for i := range n.o.Rules {
		go n.deliver(ctx, &n.o.Rules[i], n.queues[i])
	}
	n.note() // if the process is killed before the first event, the next one starts here
	for again := time.Duration(0); ctx.Err() == nil; {
		if n.follow(ctx) { // readiness reports why the process's own watch ended
			again = 0
		}
		n.note()
		again = backoff.Next(again, firstAgain, mostAgain)
		n.o.Pause(ctx, again)
	}
}

// follow watches until the watch fails, and reports whether it had started.
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

// tell adds a notification to the queue of each rule that selects it.
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

// deliver sends the notifications of one rule, one by one.
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

// try sends one notification, with retries.
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

// noted is the saved note: the ends of jobs that were reported.
type noted struct {
	Until int64            `json:"untilUnixMs"`
	Jobs  map[string]int64 `json:"jobs"`
}

// recall returns the state from the saved note, or a state that starts now.
func (n *Notifier) recall() *sight {
	now := n.o.WallMs()
	text, err := os.ReadFile(filepath.Join(n.o.Dir, noteFile))
	var t noted
	if n.o.Dir == "" || err != nil || json.Unmarshal(text, &t) != nil || t.Until <= 0 || t.Until > now {
		return newSight(now, nil)
	}
	return newSight(t.Until, t.Jobs)
}

// note saves the note. If this fails, some notifications are sent again after a restart.
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
