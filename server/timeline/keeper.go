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

// This file writes the timeline. Only the leader writes, from its own watch, like the watch of a page. If the watch
// fails, the next one sends the complete state again.

const (
	// blockEvery is the interval for writing changes as a block. Of several changes of one thing, only the last
	// is written. If nothing changes, an empty block is written after idleEvery, as proof that the recording
	// continues.
	blockEvery = 10 * time.Second
	idleEvery  = time.Minute
	sumEvery   = time.Minute
	againAfter = 2 * time.Second
	// maxJobs limits the number of known jobs. Further waiting jobs appear only in the sums.
	maxJobs = 20_000
)

// Options holds the settings of a Keeper.
type Options struct {
	Dir  string
	Keep time.Duration
	API  api.SynapseClient
	// Text returns the JSON that a page shows for an event, the key of the thing, and whether the thing has
	// ended. An empty key means that the event is not shown.
	Text func(*messages.Event) (key string, text []byte, over bool)
	// Count returns the current sum, without the values that the Keeper measures itself. It returns nil if
	// counting is not possible now.
	Count  func(context.Context) *Sum
	WallMs func() int64
	Log    func(format string, args ...any)
}

// Keeper writes the timeline and answers requests about it.
type Keeper struct {
	o Options

	mu        sync.Mutex
	log       *Log
	jobs      int
	seen      map[string]bool  // keys that the current watch has sent; nil: the initial state is complete
	synced    bool             // a watch has been complete once
	follows   bool             // a watch is complete now
	committed map[string]int64 // by job: the commit time of counted first attempts, if after counted
	counted   int64            // all earlier commits are counted, or were before the recording
	waits     map[string]Wait
	unwritten string // last logged reason why nothing was written
	unwatched string // last logged reason why the watch failed
}

// NewKeeper creates a Keeper.
func NewKeeper(o Options) (*Keeper, error) {
	log, err := Open(o.Dir, o.Keep, MaxBytes)
	if err != nil {
		return nil, err
	}
	return &Keeper{o: o, log: log, committed: map[string]int64{}, counted: o.WallMs(), waits: map[string]Wait{}}, nil
}

// Run writes the timeline until the context ends.
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

// write writes a block if something has changed or idleEvery has passed.
func (k *Keeper) write() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.o.WallMs()
	if !k.synced || len(k.log.order) == 0 && now < k.log.last+idleEvery.Milliseconds() && now >= k.log.last {
		return
	}
	k.told(&k.unwritten, k.log.Write(now))
}

// told logs an error if it differs from the last one. The caller holds the lock.
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
		if n > 0 && ctx.Err() == nil { // a new leader may not be ready for the first watch
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

// take processes an event.
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
	for _, key := range k.log.Keys() { // things that ended while there was no watch
		if !k.seen[key] {
			gone, _ := json.Marshal([2]string{"gone", filepath.Base(key)})
			k.log.End(key, gone)
		}
	}
	k.seen, k.synced, k.follows, k.unwatched = nil, true, true, ""
}

// put records the state of a thing. A job that had finished before the Keeper knew it is omitted.
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

// count records the waiting time of a job whose first attempt was committed, also if no watch reported it at that
// time.
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

// settle forgets counted jobs up to a time for which the watch is complete. The caller holds the lock.
func (k *Keeper) settle(until int64) {
	if !k.follows || until <= k.counted {
		return
	}
	k.counted = until
	maps.DeleteFunc(k.committed, func(_ string, at int64) bool { return at <= until })
}

// piece is one line of a recording, in the form that pages read.
type piece struct {
	Fresh   bool              `json:"fresh,omitempty"`
	Synced  bool              `json:"synced,omitempty"`
	Now     int64             `json:"now"`
	Changes []json.RawMessage `json:"changes,omitempty"`
	Away    *string           `json:"away,omitempty"`
}

const (
	// maxChanges limits the changes per line, and maxTold the total bytes of changes after the first state.
	maxChanges = 250
	maxTold    = 8 << 20

	nothingKept = "no timeline was recorded here for this time"
)

// Since returns the first recorded time.
func (k *Keeper) Since() int64 {
	since, _ := Since(k.o.Dir) // 0 if unreadable
	return since
}

// Moments calls take with lines of a recording: the state at a time, and the changes up to another time. It returns
// the time up to which the lines are complete.
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

// errEnough ends a read early.
var errEnough = errors.New("enough")

func takeLine(l piece, take func([]byte) error) error {
	text, err := json.Marshal(l)
	if err != nil {
		return err // another program changed the file
	}
	return take(text)
}

// Sums calls take with each sum of a time range, as a line of JSON.
func (k *Keeper) Sums(from, until, step int64, take func(line []byte) error) error {
	return ReadSums(k.o.Dir, from, until, step, func(s *Sum) error {
		text, err := json.Marshal(s)
		if err != nil {
			return err
		}
		return take(text)
	})
}
