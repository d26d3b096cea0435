package host

import (
	"maps"
	"slices"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/link"
)

// This file owns the metrics of a process's actors for operators: counters, durations, and queue lengths.

// Bounds lists the bucket bounds of all distributions. They are equal, so that distributions can be added. They range
// from a disk write to the preparation of a large image.
var Bounds = []time.Duration{
	100 * time.Microsecond, 250 * time.Microsecond, 500 * time.Microsecond,
	time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond, 10 * time.Millisecond, 25 * time.Millisecond,
	50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond, 500 * time.Millisecond,
	time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second, 30 * time.Second,
	time.Minute, 5 * time.Minute, 15 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour,
}

// Span is one distribution. Within counts, for each of Bounds, the durations up to that bound.
type Span struct {
	Name   string
	Count  uint64
	Sum    time.Duration
	Within []uint64
}

type distribution struct {
	count uint64
	sum   time.Duration
	in    []uint64 // by bucket, each without the lower ones
}

// Took adds a duration to a distribution.
func (h *Host) Took(name string, d time.Duration) {
	d = max(d, 0)
	at, _ := slices.BinarySearch(Bounds, d)
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.spans[name]
	if s == nil {
		s = &distribution{in: make([]uint64, len(Bounds)+1)}
		h.spans[name] = s
	}
	s.count++
	s.sum += d
	s.in[at]++
}

// Spans returns all distributions, sorted by name.
func (h *Host) Spans() []Span {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]Span, 0, len(h.spans))
	for _, name := range slices.Sorted(maps.Keys(h.spans)) {
		s := h.spans[name]
		one := Span{Name: name, Count: s.count, Sum: s.sum, Within: make([]uint64, len(Bounds))}
		var sum uint64
		for i := range Bounds {
			sum += s.in[i]
			one.Within[i] = sum
		}
		all = append(all, one)
	}
	return all
}

// Counts returns the counters by name.
func (h *Host) Counts() map[string]int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return maps.Clone(h.counts)
}

// watched lists the kinds with few actors that all other work depends on.
var watched = []actors.Kind{
	actors.KindScheduler, actors.KindJournal, actors.KindMirror, actors.KindRack, actors.KindNode,
}

// mailboxOf returns the producer of mailboxes for a kind of actor.
func (h *Host) mailboxOf(kind actors.Kind) actor.MailboxProducer {
	if !slices.Contains(watched, kind) {
		return link.Mailbox
	}
	return func() actor.Mailbox {
		box := link.Mailbox()
		h.mu.Lock()
		defer h.mu.Unlock()
		h.boxes[kind] = append(h.boxes[kind], box)
		return box
	}
}

// Depth is the number of messages that wait for the actors of one kind.
type Depth struct {
	Kind    actors.Kind
	Waiting int
}

// Depths returns the queue lengths of the watched kinds that have actors.
func (h *Host) Depths() []Depth {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []Depth
	for _, kind := range watched {
		if len(h.boxes[kind]) == 0 {
			continue
		}
		one := Depth{Kind: kind}
		for _, box := range h.boxes[kind] {
			one.Waiting += box.UserMessageCount()
		}
		all = append(all, one)
	}
	return all
}
