package sim

import (
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// shapeKept is S7: the committed gang is what the client requested. Each rank occurs once, with its amount and its
// GPUs. All ranks are in one domain of the required level, on the named nodes and on no excluded node. Each agent knows
// the network of the job. Ranks that must be apart are on separate nodes.
//
// A port is allocated on rank 0's node, where the members meet, and on no other. Every member gets exactly the
// addresses of all members and the port of rank 0.
//
// The stored job is the submitted one, with one exception. A job without a memory request gets a marked share of memory
// by its CPUs and GPUs, at most the largest share on any node.
type shapeKept struct {
	rule
	most map[string]memoryOf // by node, from its announcements
}

// memoryOf holds the most memory that a node has had, and the fewest CPUs and GPUs.
type memoryOf struct{ bytes, milliCPU, milliGPU int64 }

func newShapeKept() *shapeKept {
	return &shapeKept{rule: rule{"S7 shape-kept", on{Stored, Sent, TaskSpawned}}, most: map[string]memoryOf{}}
}

func (c *shapeKept) Step(w *World, e *Event) {
	switch e.Kind {
	case TaskSpawned:
		c.spawned(w, e)
		return
	case Sent:
		c.sent(w, e)
		return
	}
	if n := e.Stored.node; n != nil {
		c.announced(n)
	}
	if job := e.Stored.job; job != nil && e.Stored.jobWas == nil {
		c.recorded(w, e.Stored)
	}
	for _, a := range e.Stored.committed() {
		c.committed(w, e.Stored.job.Spec, a)
	}
}

// announced records the resources of a node as the leader knows them.
func (c *shapeKept) announced(n *messages.NodeRecord) {
	total := n.GetAnnouncement().GetTotal()
	was, ok := c.most[n.Id]
	if !ok {
		was = memoryOf{0, total.GetMilliCpu(), total.GetMilliGpu()}
	}
	c.most[n.Id] = memoryOf{max(was.bytes, total.GetMemoryBytes()), min(was.milliCPU, total.GetMilliCpu()),
		min(was.milliGPU, total.GetMilliGpu())}
}

// awayFromRecord skips records of a scheduler of the previous version, which loses fields that it does not know.
func (*shapeKept) awayFromRecord(s *stored) bool { return s.proc.old }

// recorded compares a new job with its client's request.
func (c *shapeKept) recorded(w *World, s *stored) {
	job := s.job
	var asked *messages.JobSpec
	for _, o := range w.client.jobs {
		if o.requestID == job.RequestId {
			asked = copyOf(o.spec)
		}
	}
	if asked == nil || asked.Each == nil {
		return
	}
	given := job.Spec.GetEach().GetMemoryBytes()
	if asked.Each.MemoryBytes == 0 {
		asked.Each.MemoryBytes = given
		if most := c.share(asked.Each); given <= 0 || given > most {
			c.violate(w, "job %s requests no memory and has %d bytes, more than its share of %d", job.Id, given, most)
		}
		if !job.MemoryByShare && !c.awayFromRecord(s) {
			c.violate(w, "job %s requests no memory, but its record does not mark that", job.Id)
		}
	} else if job.MemoryByShare {
		c.violate(w, "job %s requests memory, but its record says that it did not", job.Id)
	}
	limit := w.draw.Settings.DefaultLimit.Milliseconds()
	byDefault := limit > 0 && asked.TimeLimitMs == 0
	if byDefault {
		asked.TimeLimitMs = limit
	}
	if job.LimitByDefault != byDefault && !c.awayFromRecord(s) {
		c.violate(w, "job %s has the default time limit: %v, but its record says %v", job.Id, byDefault,
			job.LimitByDefault)
	}
	if asked.User == messages.UserMe {
		asked.User = job.GetOwner().GetName()
	}
	if !c.awayFromRecord(s) && !proto.Equal(asked, job.Spec) {
		c.violate(w, "job %s requests %v, but its record has %v", job.Id, asked, job.Spec)
	}
}

// share returns the largest memory share of a task on any node.
func (c *shapeKept) share(each *messages.Resources) (most int64) {
	for _, m := range c.most { //order: the greatest of them
		part := float64(each.MilliCpu) / float64(m.milliCPU)
		if m.milliGPU > 0 {
			part = (part + float64(each.MilliGpu)/float64(m.milliGPU)) / 2
		}
		most = max(most, int64(float64(m.bytes)*part)+1)
	}
	return most
}

// sent checks the requests to a node, and its reservations.
func (c *shapeKept) sent(w *World, e *Event) {
	switch m := e.Message.(type) {
	case *messages.Reserve:
		if page := w.books.jobs[m.Order.GetJob()]; page != nil && page.record.Spec != nil &&
			m.GpuType != page.record.Spec.GpuType {
			c.violate(w, "job %s requests GPUs of type %q, but a node gets a request for %q", m.Order.Job,
				page.record.Spec.GpuType, m.GpuType)
		}
	case *messages.Reserved:
		if len(m.Grants) > 0 && (m.RendezvousPort != 0) != (m.Grants[0].Rank == 0) {
			c.violate(w, "%s has allocated port %d for job %s, but its first rank is %d",
				e.Process.address, m.RendezvousPort, m.Origin.Job, m.Grants[0].Rank)
		}
	}
}

// spawned compares a process's GPUs with those in COMMIT.
func (c *shapeKept) spawned(w *World, e *Event) {
	a := w.books.attempts[e.Task.key.Token]
	if a == nil {
		return // a restore removed its COMMIT while Start was on its way
	}
	c.told(w, e.Task, a)
	c.networked(w, e.Task)
	for _, p := range a.GetPlaces() {
		if p.Rank != int32(e.Task.key.Rank) {
			continue
		}
		granted, got := messages.FromShares(p.Grant.GetGpus()), messages.FromShares(e.Task.grant.GetGpus())
		if !slices.Equal(granted, got) {
			c.violate(w, "%v of job %s was granted %v, but runs on %v", e.Task.key, a.Job, granted, got)
		}
	}
}

// networked checks that the agent that starts a task knows the network of its job. An agent that does not would use the
// host network.
func (c *shapeKept) networked(w *World, t *task) {
	page, m := w.books.jobs[t.job], w.machine(t.node)
	if page == nil || m == nil || len(messages.NetworkLabels(page.record.GetSpec().GetNetwork())) == 0 {
		return
	}
	if m.unversed || t.agent.lacks(&messages.JobSpec{Network: page.record.Spec.Network}) {
		c.violate(w, "%v of job %s requests network %q, but %s's agent knows only the host network",
			t.key, t.job, page.record.Spec.Network.Word(), t.node)
	}
}

// told compares a process's view of its gang with COMMIT.
func (c *shapeKept) told(w *World, t *task, a *messages.AttemptRecord) {
	meet, err := t.meet.Unpacked()
	if err != nil || len(meet.GetPeers()) != len(a.GetPlaces()) {
		c.violate(w, "%v of job %s got a list of %d members, but COMMIT has %d: %v", t.key, t.job, len(meet.GetPeers()),
			len(a.GetPlaces()), err)
		return
	}
	for i, p := range a.Places {
		peer := meet.Peers[i]
		if peer.Rank != p.Rank || peer.Node != p.Node || peer.Address != p.Address ||
			!hasPlace(w.machine(p.Node), peer.Rack) {
			c.violate(w, "%v of job %s got member %v, but COMMIT has rank %d on %s at %s", t.key, t.job, peer, p.Rank,
				p.Node, p.Address)
			return
		}
	}
	if meet.Address != meet.Peers[0].Address || meet.Port != a.Rendezvous.GetPort() || meet.Port == 0 {
		c.violate(w, "%v of job %s has its rendezvous at %s:%d, but rank 0 is at %s:%d",
			t.key, t.job, meet.Address, meet.Port,
			meet.Peers[0].Address, a.Rendezvous.GetPort())
	}
}

func hasPlace(m *machine, name string) bool {
	return m == nil || slices.ContainsFunc(m.announcement.Place, func(l *messages.Label) bool { return l.Value == name })
}

func (c *shapeKept) committed(w *World, spec *messages.JobSpec, a *messages.AttemptRecord) {
	var sum topology.Resources
	for i, p := range a.Places {
		if p.Rank != int32(i) {
			c.violate(w, "job %s: place %d is rank %d", a.Job, i, p.Rank)
		}
		amount := messages.FromResources(p.Grant.GetAmount())
		sum = sum.Plus(amount)
		if spec.GetEach() != nil && amount != messages.FromResources(spec.Each) {
			c.violate(w, "job %s: rank %d has %v, requested was %v", a.Job, p.Rank, amount, spec.Each)
		}
		c.devices(w, a, p, amount)
	}
	if total := spec.GetGang().GetTotal(); total != nil {
		if want := messages.FromResources(total); sum != want {
			c.violate(w, "job %s: has %v in total, requested was %v", a.Job, sum, want)
		}
	} else if n := int(spec.GetGang().GetReplicasMin()); len(a.Places) != n {
		c.violate(w, "job %s: has %d members, requested were %d", a.Job, len(a.Places), n)
	}
	c.together(w, spec, a)
	c.named(w, spec, a)
}

// named checks the nodes that a job names.
func (c *shapeKept) named(w *World, spec *messages.JobSpec, a *messages.AttemptRecord) {
	var last string
	for _, p := range a.Places {
		switch {
		case len(spec.GetNodes()) > 0 && !slices.Contains(spec.GetNodes(), p.Node):
			c.violate(w, "job %s names the nodes %v, but is on %s", a.Job, spec.GetNodes(), p.Node)
		case slices.Contains(spec.GetExclude(), p.Node):
			c.violate(w, "job %s excludes the nodes %v, but is on %s", a.Job, spec.GetExclude(), p.Node)
		case spec.GetGang().GetApart() && p.Node == last:
			c.violate(w, "job %s has two members on %s, but requires separate nodes", a.Job, p.Node)
		}
		last = p.Node
	}
}

// devices checks that a grant's shares add up to the amount, that its GPUs exist on the node, and that a whole GPU is
// not two halves.
func (c *shapeKept) devices(w *World, a *messages.AttemptRecord, p *messages.Place, amount topology.Resources) {
	var milli int64
	parts := 0
	for _, g := range p.Grant.GetGpus() {
		milli += g.Milli
		if g.Milli < topology.WholeGPU {
			parts++
		}
	}
	if milli != amount.MilliGPU || parts > 1 || parts == 1 && amount.MilliGPU%topology.WholeGPU == 0 {
		c.violate(w, "job %s: rank %d of %v milli-GPU has %v", a.Job, p.Rank, amount.MilliGPU, p.Grant.GetGpus())
	}
}

// together checks the required level.
func (c *shapeKept) together(w *World, spec *messages.JobSpec, a *messages.AttemptRecord) {
	level := spec.GetTopology().GetRequired()
	if level == "" {
		return
	}
	first := ""
	for _, p := range a.Places {
		where := w.placeOf(p.Node, level)
		if first == "" {
			first = where
		}
		if where != first {
			c.violate(w, "job %s must stay in one %s, but is in %s and %s", a.Job, level, first, where)
			return
		}
	}
}

// placeOf returns a node's domain on a level, with the coarser domains before it.
func (w *World) placeOf(node, level string) string {
	m := w.machine(node)
	if m == nil {
		return "?"
	}
	path := ""
	for _, l := range m.announcement.Place {
		path += "/" + l.Value
		if l.Key == level {
			return path
		}
	}
	return path + "/" + node
}
