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

// This file owns what of the store cannot be read and is set aside, so that one
// record costs what it is about and not the cluster.
//
// A job is set aside whole. What it has on machines goes on and keeps its devices:
// no machine is told to stop, and none to forget, because nobody knows what the
// record said. The operator gives it up by cancel. Then the store forgets it, and
// its machines clean up. The leader cancels the elements of an array that is given
// up.
//
// A machine joins again by its next Hello, whose record takes the damaged one's
// place, and what runs there is heard. But it stays closed: whether it was cordoned
// or drained is lost with the record. Whether it is the same machine is not lost
// where it matters: attempts have the id of each machine that they are on.

// damagedJob is one job that is set aside.
type damagedJob struct {
	actors.Damaged
	dropping bool         // its end is on the way to the disk
	askers   []*actor.PID // to be told then
}

// setAside names all that could not be read. Machines that can be are known by then.
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

// damageOf says what became of a job with a record that cannot be read, and what can be done.
func damageOf(d actors.Damaged) string {
	return fmt.Sprintf("record is corrupted (%s): its tasks are left alone; run `synapse-cli cancel %s` to give the "+
		"job up", d.What, d.Job)
}

// setNodeAside expects the machine under a record that was never written.
func (s *Scheduler) setNodeAside(ctx actor.Context, d actors.Damaged, attempts []*messages.AttemptRecord) {
	s.p.Host.Count("scheduler.damaged", 1)
	s.p.Log.Warn("Node %s is set aside: its record is corrupted (%s); it registers again, and stays "+
		"unschedulable until it is uncordoned", d.Node, d.What)
	var newest topology.Token
	rec := &messages.NodeRecord{Id: string(d.Node), Cordoned: &messages.Deed{
		By: &messages.Principal{Name: "the store"}, AtUnixMs: s.p.Clock.WallMs(), // closer would blame the machine
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

// unread reports whether the machine's record is damaged and no other has taken its place.
func (m *machine) unread() bool { return m.record != nil && m.record.Revision == 0 }

// onCancel gives a damaged job up; of any other its actor decides.
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

// onDropped: the store has forgotten the job, and its machines may.
func (s *Scheduler) onDropped(ctx actor.Context, d *damagedJob, w protocol.Written) {
	outcome := messages.OK()
	if w.Verdict == actors.Done {
		delete(s.damaged, d.Job)
		s.conclude(ctx, d.Job, messages.JobState_JOB_STATE_UNSPECIFIED)
		s.tellEnded(ctx, d.Job, messages.JobState_JOB_STATE_UNSPECIFIED) // where it was of an array
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

// sightEverywhere looks at what machines have of a job without an actor. The view forgets the job's attempts: the actor
// would have said when they left, and without it only the books of the machines tell.
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

// breakDown sets a job aside whose record was found damaged when its actor was to be remade.
func (s *Scheduler) breakDown(ctx actor.Context, e *livingJob, what string) {
	s.dropRun(e)
	s.remembers(func(p policy.Rememberer) {
		p.Forgotten(e.id)
		p.Written(e.id) // nobody can read what is
	})
	delete(s.jobs, e.id)
	s.idles(ctx, e, false)
	if s.requests[e.key] == e {
		delete(s.requests, e.key)
	}
	s.unqueue(ctx, e.id)
	s.setJobAside(ctx, actors.Damaged{Job: e.id, Owner: e.key.owner, What: what})
	s.freeUID(e) // its tasks keep the uid, and the books of their machines hold it
}

// What follows owns a machine's record that is on disk in another revision than the one that this leader wrote last:
// an asynchronous replica has taken over without the end of what it had acknowledged. The store is read again, the log
// says what it has lost, and what was to be changed is changed in the record as it is now.

// rereadLater asks for the records; the store hands out all of them or none. A way
// to read a single one, for what happens once in a database's life, is not worth having.
func (s *nodeTable) rereadLater(ctx actor.Context, m *machine) {
	m.edits.waiting, m.edits.written = append(m.edits.written, m.edits.waiting...), nil
	m.edits.reread = true
	s.load(ctx)
}

// onReread goes on from what is on disk.
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
			s.edit(ctx, m, nodeEdit{change: func(*messages.NodeRecord) {}}) // lost as well, or written meanwhile: this tells
		case !m.edits.reread:
		case rec == nil:
			s.vanished("node " + string(m.id))
			return
		default:
			s.goOnFrom(ctx, m, rec)
		}
	}
}

// goOnFrom takes a record over, and has the machine say again what it is.
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
