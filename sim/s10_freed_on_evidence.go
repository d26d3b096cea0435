package sim

import (
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// freedOnEvidence is S10: a GPU is free only when the process group has ended and its cgroup is empty, or after a new
// boot of the same host. Each report of an end is compared with the launchers, which know the truth. A reported end
// stays true, because it is on the node's disk and the token is never used again.
type freedOnEvidence struct {
	rule
	ended map[topology.TaskKey]*messages.Exit // true ends of processes; an entry is nil once it is in the store
	said  map[agentToken]word
}

// agentToken is an attempt at one start of a node's agent.
type agentToken struct {
	agent int
	token topology.Token
}

// word holds an agent's last report of a token.
type word uint8

const (
	saidCommitted word = iota + 1
	saidOver
)

func newFreedOnEvidence() *freedOnEvidence {
	return &freedOnEvidence{rule: rule{"S10 freed-on-evidence", on{Sent, Stored, TaskEnded, Scanned}},
		ended: map[topology.TaskKey]*messages.Exit{}, said: map[agentToken]word{}}
}

func (c *freedOnEvidence) Step(w *World, e *Event) {
	switch e.Kind {
	case TaskEnded:
		if e.Task.exit != nil && !e.Machine.lossy {
			c.ended[e.Task.key] = e.Task.exit
		}
	case Sent:
		c.onSent(w, e)
	case Stored:
		for i, a := range e.Stored.attempts {
			c.onAttempt(w, e.Stored, a, e.Stored.attemptsWere[i])
		}
		c.onClosed(w, e.Stored)
	case Scanned:
		for _, m := range w.machines {
			c.onMachine(w, m)
		}
	}
}

// onSent checks a node's reports of ended tasks.
func (c *freedOnEvidence) onSent(w *World, e *Event) {
	if _, is := e.Message.(*messages.Welcome); is && e.To != nil && e.To.machine != nil {
		e.Process.host.welcomes(e.To.machine)
	}
	if f, is := e.Message.(*messages.Forget); is {
		c.onForget(w, f)
	}
	if e.Process == nil || e.Process.machine == nil || e.Process.machine.original != nil {
		return
	}
	m := e.Process.machine
	c.staysTrue(w, e)
	switch f := e.Message.(type) {
	case *messages.Exited:
		c.durable(w, m, f.Origin, f.Exits)
		for _, x := range f.Exits {
			c.gone(w, m, messages.KeyOf(f.Origin.GetToken(), x.Rank), "Exited")
		}
	case *messages.Ended:
		c.durable(w, m, f.Origin, f.Exits)
		c.allGone(w, m, messages.FromToken(f.Origin.GetToken()), "Ended")
	case *messages.Expired:
		c.allGone(w, m, messages.FromToken(f.Origin.GetToken()), "Expired")
	case *messages.Aborted:
		c.allGone(w, m, messages.FromToken(f.Origin.GetToken()), "Aborted")
	}
}

// staysTrue compares an agent's report about a token with its earlier reports. The agent must not revive an ended
// attempt, and a committed attempt must not expire.
func (c *freedOnEvidence) staysTrue(w *World, e *Event) {
	fact, is := e.Message.(interface{ GetOrigin() *messages.Origin })
	if !is || fact.GetOrigin().GetToken() == nil {
		return
	}
	k := agentToken{e.Process.serial, messages.FromToken(fact.GetOrigin().GetToken())}
	before := c.said[k]
	switch e.Message.(type) {
	case *messages.Reserved, *messages.Committed, *messages.Prepared, *messages.Started:
		if before == saidOver {
			c.violate(w, "%s reports %s for %v, which had ended there", e.Process.address, describe(e.Message), k.token)
		}
	case *messages.Expired, *messages.Aborted:
		if before == saidCommitted {
			c.violate(w, "%s reports %s for %v, which it had committed", e.Process.address, describe(e.Message), k.token)
		}
	}
	switch e.Message.(type) {
	case *messages.Committed:
		c.said[k] = saidCommitted
	case *messages.Ended, *messages.Aborted, *messages.Expired:
		if before == 0 {
			c.said[k] = saidOver
		}
	}
}

// durable checks that reported exits are on the node's disk, because they must survive a restart. While the disk has an
// error, an end before the start may be reported without it, because no process of the attempt can run.
func (c *freedOnEvidence) durable(w *World, m *machine, o *messages.Origin, exits []*messages.Exit) {
	record, err := worker.DecodeRecord(m.disk.content)
	if err != nil {
		return
	}
	kept := map[int32]*messages.Exit{}
	for _, s := range record.Slices {
		if proto.Equal(s.Token, o.Token) {
			for _, x := range s.Exits {
				kept[x.Rank] = x
			}
		}
	}
	for _, x := range exits {
		if kept[x.Rank] == nil && x.Kind != messages.ExitKind_EXIT_KIND_NEVER_STARTED &&
			x.Kind != messages.ExitKind_EXIT_KIND_PREPARE_FAILED {
			c.violate(w, "%s reports %v for %v, but its disk does not have it", m.address, x, o.Token)
			return
		}
	}
}

func (c *freedOnEvidence) gone(w *World, m *machine, k topology.TaskKey, word string) {
	if m.launcher.running(k) {
		c.violate(w, "%s reports %s for %v, which still runs", m.address, word, k)
	}
}

func (c *freedOnEvidence) allGone(w *World, m *machine, t topology.Token, word string) {
	for _, k := range m.launcher.order {
		if k.key.Token == t {
			c.gone(w, m, k.key, word)
		}
	}
}

// onMachine checks that every running process still has its GPUs in the ledger.
func (c *freedOnEvidence) onMachine(w *World, m *machine) {
	if m.proc == nil || m.proc.node == nil || !m.proc.node.Ready() {
		return
	}
	for _, t := range m.launcher.order {
		if t.state != taskRunning {
			continue
		}
		s := m.proc.node.Ledger().Allocation(t.key.Token)
		if s == nil || !s.Holds() {
			c.violate(w, "%s: %v of job %s runs, but the ledger holds no resources for it", m.address, t.key, t.job)
			return
		}
		for _, g := range s.Grants {
			if g.Rank == t.key.Rank && g.Gone {
				c.violate(w, "%s: %v of job %s runs, but the ledger has its exit", m.address, t.key, t.job)
			}
		}
	}
}

// onAttempt checks exits that enter the store. It also checks that no attempt is committed while a reachable node still
// runs an earlier one.
func (c *freedOnEvidence) onAttempt(w *World, s *stored, a, was *messages.AttemptRecord) {
	for i, p := range a.Places {
		if p.Exit == nil || was != nil && was.Places[i].Exit != nil || p.Exit.Kind == messages.ExitKind_EXIT_KIND_REMOVED {
			continue
		}
		// A hostile node may also have reported a false end of its own task, which harms only itself.
		if m := w.machine(p.Node); m != nil && m.machineID == p.MachineId && !m.raged {
			c.gone(w, m, messages.KeyOf(a.Token, p.Rank), "in the store")
			c.matches(w, m, messages.KeyOf(a.Token, p.Rank), p.Exit)
		}
	}
	if was != nil {
		return
	}
	for _, t := range s.page.tokens {
		earlier := w.books.attempts[t]
		for i := range earlier.GetPlaces() {
			if p := lastWord(s, earlier, i); p.Exit == nil && c.reached(w, s, p) {
				c.violate(w, "job %s committed %v while the exit of rank %d of %v on reachable node %s is unconfirmed",
					a.Job, messages.FromToken(a.Token), p.Rank, t, p.Node)
			}
		}
	}
}

// matches compares a reported exit with the truth. A node that lost its power or its record may report only that the
// task is gone. A restored store receives exits that were already compared.
func (c *freedOnEvidence) matches(w *World, m *machine, k topology.TaskKey, told *messages.Exit) {
	truth, was := c.ended[k]
	c.ended[k] = nil
	switch {
	case m.lossy:
	case truth != nil && (truth.Kind != told.Kind || truth.Code != told.Code):
		c.violate(w, "%v ended on %s as %v, but the store has %v", k, m.address, truth, told)
	case !was && told.Kind == messages.ExitKind_EXIT_KIND_SUPERVISOR_LOST:
		c.violate(w, "%v was never on %s, but the store has %v", k, m.address, told)
	}
}

// onForget checks that a node gets Forget only when the store has its exits. If an operator gave up the job because its
// record was corrupted, the exits never enter the store. A backup that is restored later may have the job again, and
// then no node knows the exits.
func (c *freedOnEvidence) onForget(w *World, f *messages.Forget) {
	t := messages.FromToken(f.Order.GetToken())
	a := w.books.attempts[t]
	if a == nil {
		for k := range c.ended { //order: each is looked at for itself
			if k.Token == t {
				c.ended[k] = nil
			}
		}
	}
	for _, p := range a.GetPlaces() {
		if p.Node == f.Order.Node && p.Exit == nil {
			c.violate(w, "Forget of %v was sent to %s, but the store has no exit of rank %d", f.Order.Token, p.Node, p.Rank)
		}
	}
}

// onClosed checks that an attempt ends only with the exits of every reachable node. The others remain unconfirmed
// allocations.
func (c *freedOnEvidence) onClosed(w *World, s *stored) {
	if s.jobWas.GetState() != messages.JobState_JOB_STATE_ACTIVE || s.job.State == messages.JobState_JOB_STATE_ACTIVE {
		return
	}
	t := messages.FromToken(s.job.Attempt)
	a := w.books.attempts[t]
	for i := range a.GetPlaces() {
		if p := lastWord(s, a, i); p.Exit == nil && c.reached(w, s, p) {
			c.violate(w, "job %s is %v while the exit of rank %d of %v on reachable node %s is unconfirmed",
				s.job.Id, s.job.State,
				p.Rank, t, p.Node)
		}
	}
}

// lastWord returns a place of an earlier attempt after the same transaction.
func lastWord(s *stored, earlier *messages.AttemptRecord, i int) *messages.Place {
	for _, a := range s.attempts {
		if messages.FromToken(a.Token) == messages.FromToken(earlier.Token) {
			return a.Places[i]
		}
	}
	return earlier.Places[i]
}

// reached reports whether the leader must have known that the node was reachable when it decided. This is so if the
// leader had heard the node without a pause since well before the decision. Events during the wait for the store or for
// a slow Job do not count.
func (c *freedOnEvidence) reached(w *World, s *stored, p *messages.Place) bool {
	m, h := w.machine(p.Node), s.proc.host
	if m == nil || h == nil || s.proc.dead || m.machineID != p.MachineId {
		return false
	}
	return h.heardSince(m, s.heard, 200*time.Millisecond)
}
