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

// This file prints the output of an array: the output of each element, labelled with the element's index. Lists
// contain neither old finished elements nor future ones. The array's record therefore provides the past elements,
// and a watch the current ones.

// followed limits the outputs that are read at once, because each uses a stream of the scheduler, which limits all
// clients. The other elements wait. Their output is not lost, because the nodes store it.
const followed = 32

// elements is one reading of an array's elements.
type elements struct {
	a         *app
	c         *client.Client
	q         *api.ReadLogs // the request for each element
	id        string        // of the array
	spec      *messages.JobSpec
	out, errs io.Writer
	met       map[int32]*messages.JobStatus // elements that were queued, with their last status; nil: only in the record
	line      []int32                       // indices of the elements to read, in order
	missed    int                           // elements without the requested earlier attempt
	told      bool                          // the user was told that some elements wait
	failed    exit.Failures
}

// logsOfAll prints the output of an array's elements until all is read and, with follow, the array has finished.
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
		a.say("%s: no element of %s has started yet: %s", a.name, e.id, a.local(array.GetReason()))
	}
	if e.missed > 0 && e.missed == len(e.met) {
		a.say("%s: no element of %s has an earlier attempt", a.name, e.id)
	}
	return e.failed.First
}

// print prints the existing output, one element after the other.
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

// wasRead is the result of reading one element.
type wasRead struct {
	index int32
	none  bool // nothing was printed
	err   error
}

// follow reads elements when they start, until the array has finished and all elements are read.
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

// watch passes on the states of the array and its elements until the array has finished. If no element has run yet,
// it prints once what it waits for. Older schedulers send all jobs.
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
				e.a.say("%s: no element of %s has started yet: %s", e.a.name, e.id, e.a.local(array.GetReason()))
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

// note queues the elements with output: those that run or ran, and by the array's record all finished ones that
// were jobs.
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

// read prints the output of one element.
func (e *elements) read(ctx context.Context, index int32) wasRead {
	q := proto.Clone(e.q).(*api.ReadLogs)
	q.Job = messages.ElementID(e.id, index)
	p := e.a.printer(e.out, e.errs, len(q.GetRanks()) != 1 && severalRanks(e.spec))
	p.prefix(e.spec)
	p.element, p.out.index, p.errs.index = q.GetJob(), strconv.Itoa(int(index)), strconv.Itoa(int(index))
	err := p.read(ctx, e.c, q, nil)
	return wasRead{index, p.none(), err}
}

// ended processes the result of reading an element. It returns errors that would occur for all elements.
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

// shared lets several goroutines write to one writer without mixing their writes.
type shared struct {
	mu sync.Mutex
	w  io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.w.Write(p)
}
