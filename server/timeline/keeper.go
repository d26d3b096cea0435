package timeline

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"path/filepath"
	"sync"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns who writes the past: the leader, by a watch of its own, as a page has one. What it lost because the
// watch broke it is told again with the next.

const (
	// blockEvery is how long changes are collected for a block: what changed and changed again meanwhile is written once.
	// A block is written each idleEvery at least, which says that the past goes on.
	blockEvery = 10 * time.Second
	idleEvery  = time.Minute
	sumEvery   = time.Minute
	againAfter = 2 * time.Second
	// maxJobs bounds the jobs that are known at once: of more that wait the sums alone tell.
	maxJobs = 20_000
)

// Options configure a keeper.
type Options struct {
	Dir  string
	Keep time.Duration
	API  api.SynapseClient
	// Text is what a page would be shown of an event: of which thing, and whether it is over; an empty key: nothing.
	Text func(*messages.Event) (key string, text []byte, over bool)
	// Count is how things stand, but for what the keeper sees itself; nil: it cannot be counted now.
	Count  func(context.Context) *Sum
	WallMs func() int64
	Log    func(format string, args ...any)
}

// Keeper keeps the past, and answers about it.
type Keeper struct {
	o Options

	mu        sync.Mutex
	log       *Log
	jobs      int
	seen      map[string]bool  // that the watch has told of; nil: all that there is has come
	synced    bool             // once
	follows   bool             // now
	committed map[string]int64 // when the attempts were committed that are counted, of those after the next
	counted   int64            // up to when all that were committed are, or are not to be: nobody kept anything then
	waits     map[string]Wait
	unwritten string // why nothing was written, as it was told last
	unwatched string // and why nothing was heard
}

// NewKeeper makes one.
func NewKeeper(o Options) (*Keeper, error) {
	log, err := Open(o.Dir, o.Keep, MaxBytes)
	if err != nil {
		return nil, err
	}
	return &Keeper{o: o, log: log, committed: map[string]int64{}, counted: o.WallMs(), waits: map[string]Wait{}}, nil
}

// Run keeps the past until the context ends.
func (k *Keeper) Run(ctx context.Context) {
	go k.follow(ctx)
	blocks := time.NewTicker(blockEvery)
	defer blocks.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			k.write()
			k.mu.Lock()
			k.log.Close()
			k.mu.Unlock()
			return
		case <-blocks.C:
			k.write()
			if n%int(sumEvery/blockEvery) == 0 {
				k.sum(ctx)
			}
		}
	}
}

// write writes a block, where there is something to be told.
func (k *Keeper) write() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.o.WallMs()
	if !k.synced || len(k.log.order) == 0 && now < k.log.last+idleEvery.Milliseconds() && now >= k.log.last {
		return
	}
	k.told(&k.unwritten, k.log.Write(now))
}

// told tells of trouble, once each. The lock is held.
func (k *Keeper) told(last *string, err error) {
	trouble := ""
	if err != nil {
		trouble = err.Error()
	}
	if trouble != *last && trouble != "" {
		k.o.Log("The timeline is not saved in %s for now: %s", k.o.Dir, trouble)
	}
	*last = trouble
}

func (k *Keeper) sum(ctx context.Context) {
	s := k.o.Count(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	if s == nil || !k.synced {
		return
	}
	s.AtMs, s.Waits = k.o.WallMs(), k.waits
	k.waits = map[string]Wait{}
	k.settle(s.AtMs - sumEvery.Milliseconds())
	k.told(&k.unwritten, WriteSum(k.o.Dir, s))
}

// follow watches until the context ends.
func (k *Keeper) follow(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		err := k.watch(ctx)
		if n > 0 && ctx.Err() == nil { // a leader that has just taken over is not ready for the first
			k.mu.Lock()
			k.told(&k.unwatched, err)
			k.mu.Unlock()
		}
		select {
		case <-ctx.Done():
		case <-time.After(againAfter):
		}
	}
}

func (k *Keeper) watch(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, err := k.o.API.Watch(ctx, &messages.Watch{Jobs: true, Nodes: true, Present: true, Books: true})
	if err != nil {
		return err
	}
	k.mu.Lock()
	k.seen = map[string]bool{}
	k.mu.Unlock()
	for {
		e, err := from.Recv()
		if err != nil {
			k.mu.Lock()
			k.follows = false
			k.mu.Unlock()
			return err
		}
		k.take(e)
	}
}

// take takes an event.
func (k *Keeper) take(e *messages.Event) {
	key, text, over := k.o.Text(e)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.count(e.GetJob())
	if key != "" {
		if k.seen != nil {
			k.seen[key] = true
		}
		k.put(key, text, over, e.GetJob() != nil)
	}
	if !e.GetSynced() || k.seen == nil {
		return
	}
	for _, key := range k.log.Keys() { // what went while nobody watched
		if !k.seen[key] {
			gone, _ := json.Marshal([2]string{"gone", filepath.Base(key)})
			k.log.End(key, gone)
		}
	}
	k.seen, k.synced, k.follows, k.unwatched = nil, true, true, ""
}

// put notes what a thing is. A job that was over before the keeper knew it is no part of its past.
func (k *Keeper) put(key string, text []byte, over, job bool) {
	knows := k.log.Knows(key)
	switch {
	case !knows && job && (k.jobs >= maxJobs || over && k.seen != nil):
	case over:
		if job && knows {
			k.jobs--
		}
		k.log.End(key, text)
	default:
		if job && !knows {
			k.jobs++
		}
		k.log.Put(key, text)
	}
}

// count counts how long a job waited that was committed for the first time, be it while no watch told of it.
func (k *Keeper) count(j *messages.JobStatus) {
	a, r := j.GetAttempt(), j.GetRecord()
	at, id := a.GetCommittedUnixMs(), r.GetId()
	if at <= k.counted || k.committed[id] == at || a.GetRun() != 1 {
		return
	}
	k.committed[id] = at
	size := SizeOf(messages.Asked(r.GetSpec(), (*messages.Resources).GetMilliGpu))
	w, ms := k.waits[size], max(at-r.GetSubmittedUnixMs(), 0)
	k.waits[size] = Wait{w.Jobs + 1, w.Ms + ms, max(w.Most, ms)}
}

// settle forgets who was counted, up to a time of which the watch has told everything. The lock is held.
func (k *Keeper) settle(until int64) {
	if !k.follows || until <= k.counted {
		return
	}
	k.counted = until
	maps.DeleteFunc(k.committed, func(_ string, at int64) bool { return at <= until })
}

// piece is one line of a record, as pages read it.
type piece struct {
	Fresh   bool              `json:"fresh,omitempty"`
	Synced  bool              `json:"synced,omitempty"`
	Now     int64             `json:"now"`
	Changes []json.RawMessage `json:"changes,omitempty"`
	Away    *string           `json:"away,omitempty"`
}

const (
	// maxChanges bounds the changes of a line, and maxTold the bytes of all that changed after the first moment.
	maxChanges = 250
	maxTold    = 8 << 20

	nothingKept = "no scheduler that led kept anything of this time here"
)

// Since is the first moment that is kept.
func (k *Keeper) Since() int64 {
	since, _ := Since(k.o.Dir) // 0 where it cannot be read
	return since
}

// Moments tells how it was from one moment to another, as lines of a record, and answers up to where.
func (k *Keeper) Moments(at, until int64, take func(line []byte) error) (int64, error) {
	size, last, none := 0, until, ""
	err := Read(k.o.Dir, at, until, func(p Piece) error {
		if size > maxTold {
			last = min(last, p.AtMs-1)
			return errEnough
		}
		l := piece{Fresh: p.Fresh, Now: p.AtMs}
		if p.Gap {
			away := nothingKept
			l.Away = &away
			return takeLine(l, take)
		}
		if p.Fresh {
			l.Away = &none
		} else {
			for _, text := range p.Texts {
				size += len(text)
			}
		}
		for {
			n := min(len(p.Texts), maxChanges)
			l.Changes = make([]json.RawMessage, n)
			for i := range n {
				l.Changes[i] = p.Texts[i]
			}
			p.Texts = p.Texts[n:]
			l.Synced = len(p.Texts) == 0
			if err := takeLine(l, take); err != nil {
				return err
			}
			if l.Synced {
				return nil
			}
			l.Fresh, l.Away = false, nil
		}
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return last, err
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

func takeLine(l piece, take func([]byte) error) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err // a file that somebody else wrote to
	}
	return take(text)
}

// Sums tells the sums of a time, one a line.
func (k *Keeper) Sums(from, until, step int64, take func(line []byte) error) error {
	return ReadSums(k.o.Dir, from, until, step, func(s *Sum) error {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return take(text)
	})
}
