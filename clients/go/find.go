package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/messages"
)

// This file owns which jobs a word of a command line means: a job, or elements of an array. Nothing is ever changed
// while that is found out.

// Find finds one job by a word without elements.
type Find func(ctx context.Context, word string) (*messages.JobStatus, error)

// Job finds the one job that a word means: by its id, its name, the beginning of an id that no other has, or as an
// element of an array.
func (c *Client) Job(ctx context.Context, word string) (*messages.JobStatus, error) {
	return c.One(ctx, word, c.Named)
}

// One finds the one job that a word means, of which find finds the one before the elements.
func (c *Client) One(ctx context.Context, word string, find Find) (*messages.JobStatus, error) {
	all, err := c.Scope(ctx, word, find)
	if err == nil && len(all) > 1 {
		return nil, RefuseScope(word, "%d elements are selected, but this command accepts one job", len(all))
	}
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// Scope finds the jobs that a word means, of which find finds the one before the elements. All elements are checked
// against one answer of the scheduler, the array's own.
func (c *Client) Scope(ctx context.Context, word string, find Find) ([]*messages.JobStatus, error) {
	if kind, name, is := strings.Cut(word, "/"); is && (kind == "job" || kind == "jobs") {
		word = name // as kubectl has it; no id and no name has a slash
	}
	s, err := ParseScope(word)
	if err != nil {
		return nil, err
	}
	if !s.Elements() {
		return c.alone(ctx, word, find)
	}
	array, err := find(ctx, s.Job)
	switch {
	case err == nil && array.GetRecord().GetSpec().GetArray() != nil:
		return c.elements(ctx, s, array)
	case err == nil && s.Bracketed:
		return nil, RefuseScope(word, "job %s is not an array", array.GetRecord().GetId())
	case err != nil && !missed(err):
		return nil, err
	case s.Bracketed:
		return nil, RefuseScope(word, "%s", err)
	}
	j, wrong := find(ctx, word) // X is not an array, so X_5 is a name, or an element that the store alone knows
	if codeIs(wrong, messages.Code_CODE_NOT_FOUND) && codeIs(err, messages.Code_CODE_CONFLICT) {
		return nil, err
	}
	return []*messages.JobStatus{j}, wrong
}

// alone finds a job by a word without elements. A word as X_a, which names no job, is refused if X is an array.
func (c *Client) alone(ctx context.Context, word string, find Find) ([]*messages.JobStatus, error) {
	j, err := find(ctx, word)
	at := strings.LastIndexByte(word, '_')
	if at > 0 && codeIs(err, messages.Code_CODE_NOT_FOUND) {
		array, failed := find(ctx, word[:at])
		if failed == nil && array.GetRecord().GetSpec().GetArray() != nil {
			return nil, RefuseScope(word, "%q is not an element of the array %s", word[at+1:], array.GetRecord().GetId())
		}
	}
	return []*messages.JobStatus{j}, err
}

// elements are the named elements of an array, or the array where all of them are named.
func (c *Client) elements(ctx context.Context, s *scope.Scope, array *messages.JobStatus) (
	[]*messages.JobStatus, error) {
	r := array.GetRecord()
	indices, err := s.In(r.GetSpec().GetArray())
	switch {
	case err != nil:
		return nil, refusedBy(err)
	case len(indices) == 0:
		return []*messages.JobStatus{array}, nil
	}
	known := map[string]*messages.JobStatus{}
	if len(indices) == 1 { // alone, it is shown with its ranks, which a list leaves out
		id := messages.ElementID(r.GetId(), indices[0])
		reply, err := c.GetJob(ctx, &messages.GetJob{Job: id})
		if err != nil && !codeIs(err, messages.Code_CODE_NOT_FOUND) {
			return nil, err
		}
		known[reply.GetJob().GetRecord().GetId()] = reply.GetJob()
	} else {
		jobs, err := c.Jobs(ctx, &messages.ListJobs{Array: r.GetId()})
		if err != nil {
			return nil, err
		}
		for _, j := range jobs {
			known[j.GetRecord().GetId()] = j
		}
	}
	var all []*messages.JobStatus
	for _, index := range indices {
		j := known[messages.ElementID(r.GetId(), index)]
		if j == nil {
			j = absent(r, index)
		}
		all = append(all, j)
	}
	return all, nil
}

// absent is an element that is no job yet, or has ended: the array's record alone knows it.
func absent(array *messages.JobRecord, index int32) *messages.JobStatus {
	r := array.ElementRecord(index)
	j := &messages.JobStatus{Record: r, Phase: messages.PhaseQueued}
	j.Because(messages.WaitArray.Because("waits in its array " + array.GetId()))
	held := messages.InRanges(array.GetArray().GetHeld(), array.GetSpec().GetArray().Place(index))
	switch {
	case r.GetState().Terminal():
		j.Phase, j.Reason, j.ReasonCode = messages.EndPhase(r.GetState()), "", ""
	case held || array.GetArray().GetHold() != nil:
		j.Phase = messages.PhaseHeld
		j.Because(messages.HeldInArray(array.GetId()))
	}
	return j
}

// ParseScope reads a word of a command line; what it refuses ends the command as any refused scope does.
func ParseScope(word string) (*scope.Scope, error) {
	s, err := scope.Parse(word)
	if err != nil {
		return nil, refusedBy(err)
	}
	return s, nil
}

// RefuseScope refuses elements, by the word that names them. A command that meets it changes nothing.
func RefuseScope(word, format string, args ...any) error {
	return refusedBy(scope.Refuse(word, format, args...))
}

func refusedBy(err error) error {
	var e *scope.Error
	errors.As(err, &e)
	return &Error{Code: messages.Code_CODE_INVALID, Scope: true, Text: e.Text, Hint: e.Hint}
}

// Refused reports whether an error is a refused scope.
func Refused(err error) bool {
	var e *Error
	return errors.As(err, &e) && e.Scope
}

func codeIs(err error, code messages.Code) bool {
	var e *Error
	return errors.As(err, &e) && e.Code == code
}

// missed reports whether no single job was found.
func missed(err error) bool {
	return codeIs(err, messages.Code_CODE_NOT_FOUND) || codeIs(err, messages.Code_CODE_CONFLICT)
}

// Named finds a job by its id, by its name, or by the beginning of an id that no other has. Of several jobs of a name
// it is the one that lives; where none does, the newest.
func (c *Client) Named(ctx context.Context, word string) (*messages.JobStatus, error) {
	if word == "" {
		return nil, &Error{Code: messages.Code_CODE_INVALID, Text: "job name is empty",
			Hint: "give an ID, its first characters, or a name"}
	}
	reply, err := c.GetJob(ctx, &messages.GetJob{Job: word})
	if err != nil && !missed(err) || reply.GetJob().GetRecord().GetId() == word || !messages.Titled(word) {
		return reply.GetJob(), err
	}
	named, failed := c.named(ctx, word)
	switch {
	case failed != nil:
		return nil, failed
	case named == nil:
		return reply.GetJob(), err
	case err == nil && reply.GetJob().GetRecord().GetId() != named.GetRecord().GetId():
		return nil, &Error{Code: messages.Code_CODE_CONFLICT, Hint: "give the complete ID",
			Text: fmt.Sprintf("%q is ambiguous: it is the name of job %s and the start of the ID of job %s", word,
				named.GetRecord().GetId(),
				reply.GetJob().GetRecord().GetId())}
	}
	reply, err = c.GetJob(ctx, &messages.GetJob{Job: named.GetRecord().GetId()}) // a list leaves out the ranks
	return reply.GetJob(), err
}

// named finds the job that is meant by a name as it was given; nil where there is none. It is looked for by the
// name that is derived from that, which an earlier scheduler knows too.
func (c *Client) named(ctx context.Context, name string) (*messages.JobStatus, error) {
	all, err := c.Jobs(ctx, &messages.ListJobs{Name: messages.NameOf(name)})
	if err != nil {
		return nil, err
	}
	var newest *messages.JobStatus
	var live []string
	for _, j := range all {
		r := j.GetRecord()
		alive := !r.GetState().Terminal()
		switch {
		case r.GetSpec().Called() != name: // an earlier scheduler does not look at names
			continue
		case alive:
			live = append(live, r.GetId())
		}
		if newest == nil || alive && len(live) == 1 || len(live) == 0 &&
			r.GetSubmittedUnixMs() >= newest.GetRecord().GetSubmittedUnixMs() {
			newest = j
		}
	}
	if len(live) > 1 {
		return nil,
			&Error{Code: messages.Code_CODE_CONFLICT,
				Text: fmt.Sprintf("%d unfinished jobs have the name %q: %s", len(live), name, some(live)),
				Hint: "give an ID"}
	}
	return newest, nil
}

// some lists the first few.
func some(names []string) string {
	if len(names) > 5 {
		names = append(names[:5:5], "and more")
	}
	return strings.Join(names, ", ")
}
