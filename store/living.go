package store

import (
	"cmp"
	"slices"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the records that a new leader continues with, for any database, and unreadable records. An unreadable
// record must not close the store: its job or node is named and left unchanged. A job is set aside with all its
// attempts, because the holdings of a gang are unknown if one attempt is missing.

// Living collects the records. A database adds its rows in any order, jobs before their attempts.
type Living struct {
	loaded   actors.Loaded
	attempts map[topology.JobID][]*messages.AttemptRecord
	aside    map[topology.JobID]bool
}

// NewLiving returns an empty collection.
func NewLiving() *Living {
	return &Living{attempts: map[topology.JobID][]*messages.AttemptRecord{}, aside: map[topology.JobID]bool{}}
}

// Job adds the record of a live job, or the error if it is unreadable.
func (l *Living) Job(id topology.JobID, owner string, record *messages.JobRecord, err error) {
	if err != nil {
		l.setAside(id, owner, err)
		return
	}
	l.loaded.Jobs = append(l.loaded.Jobs, record)
}

// Attempt adds one attempt of a live job.
func (l *Living) Attempt(job topology.JobID, record *messages.AttemptRecord, err error) {
	if err != nil {
		l.setAside(job, "", err)
		return
	}
	l.attempts[job] = append(l.attempts[job], record)
}

// Node adds a node.
func (l *Living) Node(id topology.NodeID, record *messages.NodeRecord, err error) {
	if err != nil {
		l.loaded.Damaged = append(l.loaded.Damaged, actors.Damaged{Node: id, What: whatIsWrong(err)})
		return
	}
	l.loaded.Nodes = append(l.loaded.Nodes, record)
}

func (l *Living) setAside(id topology.JobID, owner string, err error) {
	if !l.aside[id] {
		l.aside[id] = true
		l.loaded.Damaged = append(l.loaded.Damaged, actors.Damaged{Job: id, Owner: owner, What: whatIsWrong(err)})
	}
}

// Loaded returns the collection: jobs in the order of arrival, and the attempts of each in the order of their tokens.
func (l *Living) Loaded(arrival, uidTurn uint64) actors.Loaded {
	out := l.loaded
	out.Arrival, out.UIDTurn = arrival, uidTurn
	owners := map[topology.JobID]string{} // of jobs with an unreadable attempt
	for _, j := range out.Jobs {
		if l.aside[topology.JobID(j.Id)] {
			owners[topology.JobID(j.Id)] = j.Owner.GetName()
		}
	}
	for i := range out.Damaged {
		d := &out.Damaged[i]
		d.Owner = cmp.Or(d.Owner, owners[d.Job])
	}
	slices.SortFunc(out.Damaged, func(a, b actors.Damaged) int {
		return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Node, b.Node))
	})
	out.Jobs = slices.DeleteFunc(out.Jobs, func(j *messages.JobRecord) bool { return l.aside[topology.JobID(j.Id)] })
	slices.SortFunc(out.Jobs, func(a, b *messages.JobRecord) int {
		return cmp.Or(cmp.Compare(a.Arrival, b.Arrival), cmp.Compare(a.Id, b.Id))
	})
	for _, j := range out.Jobs {
		of := l.attempts[topology.JobID(j.Id)]
		slices.SortFunc(of, func(a, b *messages.AttemptRecord) int {
			return messages.FromToken(a.Token).Compare(messages.FromToken(b.Token))
		})
		out.Attempts = append(out.Attempts, of...)
	}
	return out
}
