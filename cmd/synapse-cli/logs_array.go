package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"sync"

	"google.golang.org/protobuf/proto"

	client "github.com/yi-json/synapse/clients/go"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/server/api"
)

// This file owns the output of an array: what each of its elements wrote, behind the element's index. Elements that end
// are forgotten by lists after a while, and those that are yet to come are on none, so the array's record says which
// there were, and a watch which there are.

// followed is how many elements' outputs are read at once: each takes a stream of the scheduler's, which has so many
// for all clients. The others stand in line; what they write meanwhile is not lost, for it lies on the machines.
const followed = 32

// elements is one reading of an array's elements.
type elements struct {
	a         *app
	c         *client.Client
	q         *api.ReadLogs // what is asked of each
	id        string        // of the array
	spec      *messages.JobSpec
	out, errs io.Writer
	met       map[int32]*messages.JobStatus // that stood in line once, as they were seen last; nil: only the record knows
	line      []int32                       // indices of those to be read, the next one first
	missed    int                           // had no earlier attempt, and one was asked for
	told      bool                          // that some stand in line
	failed    exit.Failures
}

// logsOfAll writes the output of an array's elements until all was read and, to follow, the array is over.
func (a *app) logsOfAll(ctx context.Context, c *client.Client, q *api.ReadLogs, array *messages.JobStatus,
	lost func(error), out, errs io.Writer) error {
	r := array.GetRecord()
	e := &elements{
		a: a, c: c, q: q, id: r.GetId(), spec: r.GetSpec(), met: map[int32]*messages.JobStatus{},
		failed: exit.Failures{Tell: a.tell}, out: &shared{w: out}, errs: &shared{w: errs},
	}
	if out == errs {
		e.errs = e.out
	}
	var err error
	if q.GetFollow() {
		err = e.follow(ctx, array, lost)
	} else {
		err = e.print(ctx, array)
	}
	if err != nil {
		return err
	}
	if len(e.met) == 0 && !over(array) && !q.GetFollow() {
		a.say("%s: no element of %s has started yet: %s", a.name, e.id, array.GetReason())
	}
	if e.missed > 0 && e.missed == len(e.met) {
		a.say("%s: no element of %s has an earlier attempt", a.name, e.id)
	}
	return e.failed.First
}

// print writes what there is, one element after the other.
func (e *elements) print(ctx context.Context, array *messages.JobStatus) error {
	jobs, err := e.c.Jobs(ctx, &messages.ListJobs{Array: e.id})
	if err != nil {
		return err
	}
	e.note(array)
	for _, j := range jobs {
		e.note(j)
	}
	slices.Sort(e.line)
	for _, index := range e.line {
		if err := e.ended(e.read(ctx, index)); err != nil {
			return err
		}
	}
	return nil
}

// wasRead is how the reading of one element ended.
type wasRead struct {
	index int32
	none  bool // nothing was written
	err   error
}

// follow reads elements as they begin to run, until the array is over and all were read.
func (e *elements) follow(ctx context.Context, array *messages.JobStatus, lost func(error)) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	seen, watched, read := make(chan *messages.JobStatus), make(chan error, 1), make(chan wasRead)
	go func() { watched <- e.watch(ctx, array, lost, seen) }()
	for open := 0; watched != nil || open > 0; {
		select {
		case j := <-seen:
			e.note(j)
		case err := <-watched:
			if watched = nil; err != nil {
				return err
			}
		case r := <-read:
			open--
			if err := e.ended(r); err != nil {
				return err
			}
		}
		for ; open < followed && len(e.line) > 0; open++ {
			index := e.line[0]
			e.line = e.line[1:]
			go func() {
				select {
				case read <- e.read(ctx, index):
				case <-ctx.Done():
				}
			}()
		}
		if len(e.line) > 0 && watched != nil && !e.told {
			e.told = true
			e.a.say("%s: at most %d outputs are shown at once: output of elements from %s on follows as others end",
				e.a.name, followed,
				messages.ElementID(e.id, e.line[0]))
		}
	}
	return nil
}

// watch passes on how the array and its elements stand until it is over. It says once what it waits for if none has run
// so far. An earlier scheduler tells of all jobs.
func (e *elements) watch(ctx context.Context, array *messages.JobStatus, lost func(error),
	seen chan<- *messages.JobStatus) error {
	pass := func(j *messages.JobStatus) error {
		select {
		case seen <- j:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	if over(array) {
		return pass(array)
	}
	ran, here := false, false
	return e.c.Follow(ctx, &messages.Watch{Jobs: true, Array: e.id, Present: true}, lost,
		func(v *messages.Event) (done bool, err error) {
			j := v.GetJob()
			isArray := j.GetRecord().GetId() == e.id
			switch {
			case v.GetSynced() && !here:
				return false, &client.Error{Code: messages.Code_CODE_NOT_FOUND,
					Text: fmt.Sprintf("job %q no longer exists", e.id),
					Hint: "finished jobs are listed only for a limited time"}
			case v.GetSynced() && !ran:
				e.a.say("%s: no element of %s has started yet: %s", e.a.name, e.id, array.GetReason())
				fallthrough
			case v.GetSynced():
				ran = true
				return false, nil
			case !isArray && j.GetRecord().GetSpec().GetElement().GetArray() != e.id:
				return false, nil
			case isArray:
				array, here = j, true
			}
			ran = ran || j.GetAttempt() != nil || len(j.GetRecord().GetArray().GetEnded()) > 0
			return isArray && over(j), pass(j)
		})
}

// note puts elements in line that have something to read: one that runs or ran and, by the array's record, all that
// ended and were jobs.
func (e *elements) note(j *messages.JobStatus) {
	r := j.GetRecord()
	if r.GetId() != e.id {
		if j.GetAttempt() != nil {
			e.enter(r.GetSpec().GetElement().GetIndex(), j)
		}
		return
	}
	for _, ended := range r.GetArray().GetEnded() {
		for _, places := range ended.GetPlaces() {
			for place := int(places.GetFirst()); !ended.GetUnborn() && place <= int(places.GetLast()); place++ {
				e.enter(e.spec.GetArray().Index(place), nil)
			}
		}
	}
}

func (e *elements) enter(index int32, j *messages.JobStatus) {
	was, met := e.met[index]
	if !met {
		e.line = append(e.line, index)
	}
	if e.met[index] = j; j == nil {
		e.met[index] = was
	}
}

// read writes what one element wrote.
func (e *elements) read(ctx context.Context, index int32) wasRead {
	q := proto.Clone(e.q).(*api.ReadLogs)
	q.Job = messages.ElementID(e.id, index)
	p := e.a.printer(e.out, e.errs, len(q.GetRanks()) != 1 && severalRanks(e.spec))
	p.element, p.out.index, p.errs.index = q.GetJob(), strconv.Itoa(int(index)), strconv.Itoa(int(index))
	err := p.read(ctx, e.c, q, nil)
	return wasRead{index, p.none(), err}
}

// ended takes how the reading of an element ended. What would befall all the others too ends all.
func (e *elements) ended(r wasRead) error {
	if r.err == nil {
		if j := e.met[r.index]; r.none && j != nil {
			e.a.sayNothing(j)
		}
		return nil
	}
	var refused *client.Error
	if !errors.As(r.err, &refused) {
		return r.err
	}
	switch refused.Code {
	case messages.Code_CODE_NOT_FOUND:
		if e.q.GetPrevious() {
			e.missed++
			return nil
		}
		if len(e.q.GetRanks()) > 0 {
			return r.err
		}
	case messages.Code_CODE_UNAVAILABLE:
	default:
		return r.err
	}
	e.failed.Note(&exit.Failure{
		Code: exit.Code(r.err), Text: messages.ElementID(e.id, r.index) + ": " + refused.Text, Hint: refused.Hint,
	})
	return nil
}

// shared has several write to one, each a whole piece.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
