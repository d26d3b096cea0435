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

// This file owns how a scheduler process comes to lead. Who leads when is decided
// by the code of real processes, cluster/lease; here is what stands around it: the
// row in the database, the way to it, and a goroutine that is not always run. A
// scheduler that is alone on its store, as with a file, asks once and leads.

// leaseRow holds the lease as the database keeps it, by its own clock.
type leaseRow struct {
	holder string
	until  instant
	lost   []uint64       // the epochs whose lease was over early, and whose leader has not renewed it since
	slow   instant        // until then calls about it take up to more than a lease, either way …
	whose  *schedulerHost // … those of this scheduler; nil: those of all
}

// lose ends the lease of an epoch before its time.
func (r *leaseRow) lose(now instant, epoch uint64) {
	if r.until > now {
		r.until, r.lost = now, append(r.lost, epoch)
	}
}

// campaign is one process's part in who leads.
type campaign struct {
	p        *process
	holder   lease.Holder
	standing *lease.Candidate
	reign    *lease.Reign // nil until it leads
	seq      int          // of the timer that counts
	starved  int          // faults that keep its goroutine from being run
	parked   []func()     // what it would have done meanwhile
	waking   bool         // it will be run in a moment
}

// held reports whether something keeps the process from looking at its lease.
func (c *campaign) held() bool { return c.p.paused || c.starved > 0 || c.waking }

// opening is how long a process takes to open a store that it shares with nobody.
const opening = 10 * time.Millisecond

// begin lets a process stand by until it leads.
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

// leadAlone is the start of a process that shares its store with nobody: where
// the store does not open, the process ends and is started again.
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

// ask puts a question to the database.
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

// call is a question's way to the database and its answer's way back. One that is
// bounded gets an error for its answer when a lease is over, and may arrive after that.
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

// run lets the goroutine do something and then look what is next; later, where
// it is not run now.
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

// starve keeps the goroutine from being run for a while, as a machine without
// enough processors does. The actors go on.
func (f *faults) starve(c *campaign, d time.Duration) {
	c.starved++
	f.until(d, func() {
		if c.starved--; c.starved == 0 {
			c.proceed()
		}
	})
}

// lead is a new leader by word of the store.
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

// take is the same where nobody else has the lease.
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

// renew makes the lease run from now.
func (s *storage) renew(p *process, epoch uint64) error {
	if err := s.kept.HeldBy(p.holder().String()).Leads(epoch); err != nil {
		return err
	}
	s.row.until = s.w.engine.now.plus(s.w.constants.Lease)
	s.row.lost = slices.DeleteFunc(s.row.lost, func(e uint64) bool { return e == epoch })
	return nil
}

// lead makes a process the leader of an epoch that the store has given it.
func (h *schedulerHost) lead(p *process, epoch uint64) {
	p.epoch = epoch
	h.w.oldLeads(p.old)
	if epoch == h.w.store.kept.Epoch() { // else another one was given a higher one meanwhile
		h.w.leading = h
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

// usurp lets somebody else take over while the leader simply goes on: the lease is
// over early, and the leader does not look for a while. It answers the old leader's
// process, or nil if nobody else can lead.
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
