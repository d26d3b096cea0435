package scheduler

import (
	"fmt"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader/protocol"
	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/topology"
)

// This file owns unreadable records of the store. They are set aside, so that a corrupted record affects only its own
// job or node.
//
// A job with an unreadable record is set aside completely. Its tasks continue and keep their devices. No node gets
// an order to stop or to forget them, because the content of the record is unknown. The operator gives the job up with
// cancel.
// Then the store deletes the job, and its nodes clean up. If the job was an array, the leader cancels its elements.
//
// A node with an unreadable record joins again with its next Hello, whose record replaces the corrupted one. Its
// running tasks are heard. The node stays closed, because the record of a cordon or drain is lost. The identity of the
// node is not lost where it matters, because attempts contain the ID of each machine that they use.

// damagedJob is one job that is set aside.
type damagedJob struct {
	actors.Damaged
	dropping bool         // its deletion is on the way to disk
	askers   []*actor.PID // clients that get an answer after the deletion
}

// setAside sets all unreadable records aside. The readable nodes are known at that time.
func (s *Scheduler) setAside(ctx actor.Context, l actors.Loaded) {
	for _, d := range l.Damaged {
		switch {
		case d.Over:
			s.p.Log.Warn("Finished job %s is left out of the history: %s", d.Job, d.What)
		case d.Job != "":
			s.setJobAside(ctx, d)
		case d.Policy:
			s.p.Host.Count("scheduler.damaged", 1)
			s.p.Log.Warn("The runtime statistics are lost and are collected again: their record is "+
				"corrupted (%s)",
				d.What)
		case d.Queues:
			s.p.Host.Count("scheduler.damaged", 1)
			s.p.Log.Warn("The queue configuration is lost until a queue file is applied again: its "+
				"record is corrupted (%s)", d.What)
		default:
			s.setNodeAside(ctx, d, l.Attempts)
		}
	}
}

func (s *jobTable) setJobAside(ctx actor.Context, d actors.Damaged) {
	if s.damaged[d.Job] != nil {
		return
	}
	s.damaged[d.Job] = &damagedJob{Damaged: d}
	s.p.Host.Count("scheduler.damaged", 1)
	s.p.Log.Warn("Job %s is set aside: %s", d.Job, damageOf(d))
	ctx.Send(s.peers.Mirror, mirror.JobShown{Status: &messages.JobStatus{
		Record: &messages.JobRecord{Id: string(d.Job), Owner: &messages.Principal{Name: d.Owner}},
		Phase:  messages.PhaseDamaged, Reason: damageOf(d),
	}})
}

// damageOf returns what happens to a job with an unreadable record, and what the operator can do.
func damageOf(d actors.Damaged) string {
	return fmt.Sprintf("record is corrupted (%s): its tasks continue; run `synapse-cli cancel %s` to give the "+
		"job up", d.What, d.Job)
}

// setNodeAside adds the node of an unreadable record as an expected node.
func (s *Scheduler) setNodeAside(ctx actor.Context, d actors.Damaged, attempts []*messages.AttemptRecord) {
	s.p.Host.Count("scheduler.damaged", 1)
	s.p.Log.Warn("Node %s is set aside: its record is corrupted (%s); it registers again, and stays "+
		"unschedulable until it is uncordoned", d.Node, d.What)
	var newest topology.Token
	rec := &messages.NodeRecord{Id: string(d.Node), Cordoned: &messages.Deed{
		By: &messages.Principal{Name: "the store"}, AtUnixMs: s.p.Clock.WallMs(), // the name of closer would blame the node
		Reason: "record was corrupted (" + d.What + "): a cordon or drain may be lost; uncordon or remove the node",
	}}
	for _, a := range attempts {
		for _, p := range a.Places {
			if t := messages.FromToken(a.Token); p.Node == rec.Id && p.Exit == nil && newest.Less(t) {
				newest, rec.MachineId = t, p.MachineId
			}
		}
	}
	s.expectMachine(ctx, rec)
}

// unread reports whether the node's record is corrupted and has not been replaced.
func (m *machine) unread() bool { return m.record != nil && m.record.Revision == 0 }

// onCancel gives up a damaged job. For any other job, it passes the request to the Job.
func (s *Scheduler) onCancel(ctx actor.Context, m *messages.Cancel) {
	d := s.damaged[topology.JobID(m.Job)]
	if d == nil {
		s.toJob(ctx, m.Job, &messages.CancelReply{Job: m.Job, Outcome: s.noJob(m.Job)})
		return
	}
	if ctx.Sender() != nil {
		d.askers = append(d.askers, ctx.Sender())
	}
	if !d.dropping {
		d.dropping = true
		s.p.Log.Warn("Corrupted job %s was given up by %s", d.Job, m.Principal.GetName())
		ctx.Request(s.peers.Journal, protocol.Write{Lane: protocol.LaneDecisions, Change: actors.Change{Drop: d.Job}, Tag: d})
	}
}

// onDropped handles the deletion of a damaged job. Its nodes may now clean up.
func (s *Scheduler) onDropped(ctx actor.Context, d *damagedJob, w protocol.Written) {
	outcome := messages.OK()
	if w.Verdict == actors.Done {
		delete(s.damaged, d.Job)
		s.conclude(ctx, d.Job, messages.JobState_JOB_STATE_UNSPECIFIED, 0)
		s.tellEnded(ctx, d.Job, messages.JobState_JOB_STATE_UNSPECIFIED) // if it was an element of an array
		ctx.Send(s.peers.Mirror, mirror.JobShown{Status: &messages.JobStatus{
			Record: &messages.JobRecord{
				Id: string(d.Job), Owner: &messages.Principal{Name: d.Owner}, State: messages.JobState_JOB_STATE_CANCELLED,
				FinishedUnixMs: s.p.Clock.WallMs(), Outcome: "given up: its record was corrupted",
			},
			Phase: messages.EndPhase(messages.JobState_JOB_STATE_CANCELLED), Reason: "given up: its record was corrupted",
		}})
		s.sightEverywhere(ctx, d.Job)
		s.endOrphans(ctx)
	} else {
		outcome = &messages.Outcome{
			Code: messages.Code_CODE_CONFLICT, Field: "job", Text: "record is readable again, or was removed",
			Hint: "restart the scheduler: a new leader reads every record",
		}
	}
	for _, asker := range d.askers {
		ctx.Send(asker, &messages.CancelReply{Job: string(d.Job), Outcome: outcome})
	}
	d.askers, d.dropping = nil, false
}

// sightEverywhere handles all allocations of a job without an actor. The view forgets the job's attempts, because no
// actor reports their end any more. From now on only the ledgers of the nodes show them.
func (s *Scheduler) sightEverywhere(ctx actor.Context, job topology.JobID) {
	for _, m := range s.order {
		for _, t := range slices.Clone(m.room.Tenants()) {
			if t.Job == job {
				m.room.Evict(t.Token)
				s.refresh(ctx, m)
			}
		}
		for _, sl := range m.ledger.GetSlices() {
			if m.up && sl.Job == string(job) {
				s.sight(ctx, m, job, messages.FromToken(sl.Token), sl)
			}
		}
	}
}

// breakDown sets a job aside whose record was found corrupted when its actor was recreated.
func (s *Scheduler) breakDown(ctx actor.Context, e *livingJob, what string) {
	s.dropRun(ctx, e)
	s.remembers(func(p policy.Rememberer) {
		p.Forgotten(e.id)
		p.Written(e.id) // the record on disk is unreadable
	})
	delete(s.jobs, e.id)
	s.idles(ctx, e, false)
	if s.requests[e.key] == e {
		delete(s.requests, e.key)
	}
	s.unqueue(ctx, e.id)
	s.setJobAside(ctx, actors.Damaged{Job: e.id, Owner: e.key.owner, What: what})
	s.freeUID(e) // its tasks keep the UID, and the ledgers of their nodes hold it
}

// The rest of this file owns node records with another revision than the last one that this leader wrote. An
// asynchronous replica has taken over without the last acknowledged writes. The store is read again, the log names the
// losses, and the pending changes apply to the record on disk.

// rereadLater requests all records, because the store cannot return a single one. A separate query is not worth its
// code for such a rare event.
func (s *nodeTable) rereadLater(ctx actor.Context, m *machine) {
	m.edits.waiting, m.edits.written = append(m.edits.written, m.edits.waiting...), nil
	m.edits.reread = true
	s.load(ctx)
}

// onReread continues from the records on disk.
func (s *Scheduler) onReread(ctx actor.Context, l actors.Loaded) {
	switch {
	case l.Deposed:
		s.p.Host.Deposed(s.p.Epoch)
		return
	case l.Err != "":
		s.p.Clock.After(s.p.Constants.JournalRetry, ctx.Self(), retryLoad{})
		return
	}
	records := map[topology.NodeID]*messages.NodeRecord{}
	for _, rec := range l.Nodes {
		records[topology.NodeID(rec.Id)] = rec
	}
	for _, m := range s.order {
		switch rec := records[m.id]; {
		case !m.edits.reread && m.edits.next == nil && rec.GetRevision() < m.record.GetRevision():
			s.edit(ctx, m, nodeEdit{change: func(*messages.NodeRecord) {}}) // lost too, or written meanwhile: the write tells
		case !m.edits.reread:
		case rec == nil:
			s.vanished("node " + string(m.id))
			return
		default:
			s.goOnFrom(ctx, m, rec)
		}
	}
}

// goOnFrom uses the record on disk, and asks the node to repeat its Hello.
func (s *Scheduler) goOnFrom(ctx actor.Context, m *machine, rec *messages.NodeRecord) {
	before := m.closed()
	s.p.Log.Info(
		"The store has revision %d of the record of node %s, but acknowledged %d: the changes in between are "+
			"lost",
		rec.Revision, m.id, m.record.GetRevision())
	m.record, m.edits.reread = rec, false
	if now := m.closed(); now != before {
		s.p.Log.Info("Node %s was %q, and is now %q as stored", m.id, before, now)
	}
	s.armDrain(ctx, m)
	s.writeNode(ctx, m)
	if m.up {
		s.lead(ctx, m.id)
	}
}
