package client

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/yi-json/synapse/clients/go/scope"
	"github.com/yi-json/synapse/messages"
)

// This file finds the jobs that an argument of a command names: jobs, or elements of an array. A search
// changes nothing.

// Find finds one job by an argument that names no elements.
type Find func(ctx context.Context, word string) (*messages.JobStatus, error)

// Job finds the one job that an argument names: by its ID, its name, a unique prefix of its ID, or as an
// element of an array.
func (c *Client) Job(ctx context.Context, word string) (*messages.JobStatus, error) {
	return c.One(ctx, word, c.Named)
}

// One finds the one job that an argument names. find resolves the part before the elements.
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

// Scope finds the jobs that an argument names. find resolves the part before the elements. Scope checks all
// elements against one answer of the scheduler about the array.
func (c *Client) Scope(ctx context.Context, word string, find Find) ([]*messages.JobStatus, error) {
	if kind, name, is := strings.Cut(word, "/"); is && (kind == "job" || kind == "jobs") {
		word = name // as in kubectl; no ID and no name contains a slash
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
	j, wrong := find(ctx, word) // X is not an array: X_5 is a name, or an element only in the store
	if codeIs(wrong, messages.Code_CODE_NOT_FOUND) && codeIs(err, messages.Code_CODE_CONFLICT) {
		return nil, err
	}
	return []*messages.JobStatus{j}, wrong
}

// alone finds a job by an argument without elements. An argument such as X_a is refused if it names no job
// and X is an array.
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

// elements returns the named elements of an array, or the array itself if all elements are meant.
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
	if len(indices) == 1 { // a single element is shown with its ranks, which lists omit
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

// absent returns the status of an element that is not a job yet, or has finished. Only the array's record
// knows it.
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

// ParseScope parses an argument of a command. A refused argument ends the command, like any refused scope.
func ParseScope(word string) (*scope.Scope, error) {
	s, err := scope.Parse(word)
	if err != nil {
		return nil, refusedBy(err)
	}
	return s, nil
}

// RefuseScope returns the error for refused elements. The error names the argument, and the command changes
// nothing.
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
	if errors.As(err, &e) {
		return e.Code == code
	}
	return inProcess(err, code)
}

// missed reports whether an argument did not match exactly one job.
func missed(err error) bool {
	return codeIs(err, messages.Code_CODE_NOT_FOUND) || codeIs(err, messages.Code_CODE_CONFLICT)
}

// Named finds a job by its ID, its name, or a unique prefix of its ID. Of several jobs with the same name,
// Named returns the unfinished job, or the newest job if all are finished.
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
			Text: fmt.Sprintf("%q is ambiguous: job %s has this name, and the ID of job %s starts with it", word,
				named.GetRecord().GetId(),
				reply.GetJob().GetRecord().GetId())}
	}
	reply, err = c.GetJob(ctx, &messages.GetJob{Job: named.GetRecord().GetId()}) // lists omit the ranks
	return reply.GetJob(), err
}

// named finds the job with the given name, or returns nil if there is none. The request contains the
// normalized name, because older schedulers know only this name.
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
		case r.GetSpec().Called() != name: // older schedulers ignore the given name
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

// some joins the first names of a list.
func some(names []string) string {
	if len(names) > 5 {
		names = append(names[:5:5], "and more")
	}
	return strings.Join(names, ", ")
}
