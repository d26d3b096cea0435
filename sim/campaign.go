package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/leader"
	"github.com/yi-json/synapse/cluster/lease"
	"github.com/yi-json/synapse/store"
)

// This file simulates how a scheduler process becomes the leader. The code of real processes, cluster/lease, decides
// who leads. This file simulates the surroundings: the row in the database, the connection to it, and a goroutine that
// may be starved. A scheduler that shares its store with nobody, as with a file, asks once and leads.

// leaseRow holds the lease as the database keeps it, by the clock of the database.
type leaseRow struct {
	holder string
	until  instant
	lost   []uint64       // epochs whose lease ended early, and whose leader has not renewed since
	slow   instant        // until then each call about the lease may take longer than a lease, each way
	whose  *schedulerHost // the scheduler whose calls are slow; nil: those of all schedulers
}

// lose ends the lease of an epoch early.
func (r *leaseRow) lose(now instant, epoch uint64) {
	if r.until > now {
		r.until, r.lost = now, append(r.lost, epoch)
	}
}

// campaign holds the part of one process in the election.
type campaign struct {
	p        *process
	holder   lease.Holder
	standing *lease.Candidate
	reign    *lease.Reign // nil until the process leads
	seq      int          // number of the current timer; earlier timers do nothing
	starved  int          // number of faults that starve the goroutine
	parked   []func()     // actions that wait until the goroutine runs again
	waking   bool         // the goroutine will run soon
}

// held reports whether the process cannot look at its lease now.
func (c *campaign) held() bool { return c.p.paused || c.starved > 0 || c.waking }

// opening is the time that a process takes to open a store that it shares with nobody.
const opening = 10 * time.Millisecond

// begin makes a process stand by until it leads.
func (h *schedulerHost) begin(p *process) {
	if h.w.draw.Alone {
		h.w.engine.after(opening, func() {
			h.w.store.after(latency(h.w.chance), func() { h.leadAlone(p) })
		})
		return
	}
	c := &campaign{p: p, holder: p.holder()}
	c.standing = lease.Stand(lease.Options{Holder: c.holder, Term: h.w.constants.Lease, Log: p, Follow: func(string) {}})
	p.campaign = c
	c.step()
}

// leadAlone starts a process that shares its store with nobody. If the store does not open, the process ends and is
// started again.
func (h *schedulerHost) leadAlone(p *process) {
	switch epoch, err := h.w.store.lead(p, p.holder().String()); {
	case p.dead:
	case err != nil:
		h.w.note(p, "cannot lead: %v", err)
		p.crash()
	default:
		h.lead(p, epoch)
	}
}

// step executes the next action of the lease's rules.
func (c *campaign) step() {
	p := c.p
	var step lease.Step
	if c.reign == nil {
		step = c.standing.Next(p.Now())
	} else {
		var lost error
		if step, lost = c.reign.Next(p.Now()); lost != nil {
			p.w.note(p, "%v", lost)
			p.w.count("lease.lost", 1)
			p.crash()
			return
		}
	}
	c.seq++
	if seq := c.seq; step.Wait > 0 {
		p.w.engine.after(p.clock.lasts(step.Wait), func() {
			if seq == c.seq {
				c.run(func() {})
			}
		})
	}
	c.ask(step.Ask)
}

// ask sends a question to the database.
func (c *campaign) ask(q lease.Question) {
	p, s := c.p, c.p.w.store
	switch q {
	case lease.Look:
		var leads store.Leadership
		c.call(true, func() error {
			leads = store.Leadership{
				Holder: s.row.holder, Epoch: s.kept.Epoch(), Left: max(0, s.row.until.since(p.w.engine.now)),
			}
			return nil
		}, func(err error) { c.standing.Looked(p.Now(), leads, err) })
	case lease.Take:
		var epoch uint64
		c.call(false, func() (err error) {
			epoch, err = s.take(p, c.holder.String())
			return err
		}, func(err error) {
			if reign, ok := c.standing.Took(p.Now(), epoch, err); ok {
				c.reign = reign
				p.host.lead(p, epoch)
			}
		})
	case lease.Renew:
		epoch := c.reign.Epoch
		c.call(true, func() error { return s.renew(p, epoch) }, func(err error) { c.reign.Renewed(p.Now(), err) })
	}
}

// call carries a question to the database and its answer back. A bounded call gets an error as its answer after one
// lease. It may still reach the database later.
func (c *campaign) call(bounded bool, do func() error, answered func(error)) {
	w, s := c.p.w, c.p.w.store
	there, back := latency(w.crown), w.crown.between(50*time.Microsecond, time.Millisecond)
	if s.row.slow > w.engine.now && (s.row.whose == nil || s.row.whose == c.p.host) {
		there += w.crown.skewed(0, 2*w.constants.Lease)
		back += w.crown.skewed(0, 2*w.constants.Lease)
		w.count("lease.slow", 1)
	}
	done := false
	answer := func(err error) {
		if !done {
			done = true
			c.run(func() { answered(err) })
		}
	}
	s.after(there, func() {
		w.engine.trace.word(uint64(w.engine.now))
		err := errAway
		if s.outage == 0 && c.p.host.cut == 0 {
			err = do()
		}
		w.engine.after(back, func() { answer(err) })
	})
	if bounded {
		w.engine.after(w.constants.Lease, func() { answer(errAway) })
	}
}

var errAway = errors.New(away)

// run lets the goroutine call do and then take the next step. If the goroutine is starved, it does so later.
func (c *campaign) run(do func()) {
	switch {
	case c.p.dead:
	case c.held():
		c.parked = append(c.parked, do)
	default:
		do()
		c.step()
	}
}

// proceed executes the delayed actions. The actors may run for a moment before that.
func (c *campaign) proceed() {
	c.waking = true
	c.p.w.engine.after(c.p.w.crown.between(0, 5*time.Millisecond), func() {
		c.waking = false
		parked := c.parked
		c.parked = nil
		for _, do := range parked {
			c.run(do)
		}
	})
}

// starve keeps the goroutine from running for a while, as on a host without enough processors. The actors continue.
func (f *faults) starve(c *campaign, d time.Duration) {
	c.starved++
	f.until(d, func() {
		if c.starved--; c.starved == 0 {
			c.proceed()
		}
	})
}

// lead makes a process the new leader by decision of the store.
func (s *storage) lead(p *process, holder string) (uint64, error) {
	if s.outage > 0 || p.host.cut > 0 {
		return 0, errAway
	}
	if s.w.draw.File && s.file == nil {
		if s.file = openFile(s.w); s.file == nil {
			return 0, errAway
		}
	}
	if err := s.file.refused(holder); err != nil {
		return 0, err
	}
	epoch, err := s.kept.Lead(holder)
	if err == nil {
		s.file.lead(holder, epoch)
		s.tell(Call{Epoch: epoch})
		s.w.seen(Event{Kind: Led, Process: p, Epoch: epoch})
	}
	return epoch, err
}

// take makes a process the leader if no other process has the lease.
func (s *storage) take(p *process, holder string) (uint64, error) {
	if s.row.holder != holder && s.row.until > s.w.engine.now {
		return 0, store.ErrLed
	}
	epoch, err := s.lead(p, holder)
	if err == nil {
		s.row.holder, s.row.until = holder, s.w.engine.now.plus(s.w.constants.Lease)
	}
	return epoch, err
}

// renew extends the lease from now.
func (s *storage) renew(p *process, epoch uint64) error {
	if err := s.kept.HeldBy(p.holder().String()).Leads(epoch); err != nil {
		return err
	}
	s.row.until = s.w.engine.now.plus(s.w.constants.Lease)
	s.row.lost = slices.DeleteFunc(s.row.lost, func(e uint64) bool { return e == epoch })
	return nil
}

// lead makes a process the leader of an epoch that the store has assigned to it.
func (h *schedulerHost) lead(p *process, epoch uint64) {
	p.epoch = epoch
	h.w.oldLeads(p.old)
	if epoch == h.w.store.kept.Epoch() { // otherwise another process got a higher epoch meanwhile
		h.w.leading, h.w.led = h, h
		h.w.elections++
		h.w.ledSince = h.w.engine.now
	}
	for i := range h.heardAt {
		h.heardAt[i], h.quietAt[i], h.silent[i] = 0, h.w.engine.now, true
	}
	h.w.faults.takeover(h)
	h.w.note(p, "leads with epoch %d", epoch)
	leader.Assemble(leader.Ports{
		Ports: actors.Ports{
			System: p.system, Host: p, Clock: p, Log: p, Constants: h.w.constants,
		},
		Epoch: epoch, ClusterID: ourCluster, Levels: h.w.draw.Levels,
		Store: &storePort{h.w.store, p}, Peers: p, Calls: actors.Tagged{To: p, Tag: actors.TagCalls},
		AcceptLoss: h.w.loss.accepted, NewJobID: h.w.newJobID,
		UIDs: h.w.draw.UIDs, Planner: h.w.opts.Planner, Settings: h.w.draw.Settings,
	})
}

// usurp lets another scheduler take over while the old leader continues. The lease ends early, and the old leader does
// not look at it for a while. usurp returns the old leader's process, or nil if no other scheduler can lead.
func (w *World) usurp(unaware time.Duration) *process {
	old := w.leader()
	if old == nil || old.campaign == nil || w.store.outage > 0 {
		return nil
	}
	for _, h := range w.schedulers {
		if p := h.proc; p != nil && p != old && !p.paused && h.cut == 0 && p.epoch == 0 {
			w.faults.starve(old.campaign, unaware)
			w.store.row.lose(w.engine.now, w.store.kept.Epoch())
			return old
		}
	}
	return nil
}
