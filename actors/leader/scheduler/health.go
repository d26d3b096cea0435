package scheduler

import (
	"github.com/asynkron/protoactor-go/actor"
)

// This file owns how many machines may be closed by the checks of their own health. A machine says that a check failed,
// and is closed until it says that it is well: nobody has to open it again, and a next leader is told the same. But a
// check can be wrong, and a wrong one is wrong everywhere at once: whoever installs it would have drained the fleet. So
// of machines with one GPU type only a twentieth are closed by checks at one time. Beyond that the leader says so, and
// goes on placing gangs there, despite what the machines say.

// unwellShare: of so many machines with one GPU type, one may be closed by its checks; and one in any case.
const unwellShare = 20

// health is what a machine's checks mean for it.
type health uint8

const (
	healthFine    health = iota // no check has failed, as far as it says
	healthClosed                // nothing new goes there
	healthExcused               // too many others say the same: gangs are placed there all the same
)

// CountUnwell counts machines that were closed by their checks, and CountExcused those that too many others kept open.
const (
	CountUnwell  = "scheduler.unwell"
	CountExcused = "scheduler.unwell_excused"
)

// weighHealth looks at what a machine says of its health. When one is well again, one that was excused may be closed in
// its stead.
func (s *Scheduler) weighHealth(ctx actor.Context, m *machine) {
	words, before := m.ledger.GetUnwell(), m.health
	switch {
	case words == "":
		m.health = healthFine
		if before == healthClosed {
			s.p.Log.Info("%s is well again", m.id)
			s.weighOthers(ctx, m)
		}
	case before == healthFine:
		s.sentence(m)
	}
}

// sentence closes a machine whose check failed, or excuses it.
func (s *Scheduler) sentence(m *machine) {
	words := m.ledger.GetUnwell()
	if s.mayHoldUnwell(m) {
		m.health = healthClosed
		s.p.Host.Count(CountUnwell, 1)
		s.p.Log.Info("UNWELL: %s takes nothing new: %s", m.id, words)
		return
	}
	if m.health != healthExcused {
		m.health = healthExcused
		s.p.Host.Count(CountExcused, 1)
		s.p.Log.Info("UNWELL: %s says so too, and stays open, because checks fail on more than one in %d machines like it: "+
			"look at the check, and drain the machine if it is right: %s", m.id, unwellShare, words)
	}
}

// weighOthers closes the first of the machines like one that is well again, if a check fails there.
func (s *Scheduler) weighOthers(ctx actor.Context, well *machine) {
	for _, m := range s.order {
		if m.health != healthExcused || !m.up || gpuTypeOf(m) != gpuTypeOf(well) {
			continue
		}
		if !s.mayHoldUnwell(m) {
			return
		}
		s.sentence(m)
		s.refresh(ctx, m)
	}
}

// forgetHealth: a machine that cannot be reached holds no place among those that are closed. It says what it has found
// when it returns.
func (s *Scheduler) forgetHealth(ctx actor.Context, m *machine) {
	before := m.health
	if m.health = healthFine; before == healthClosed {
		s.weighOthers(ctx, m)
	}
}

// mayHoldUnwell reports whether the pool can do without one more machine.
func (s *Scheduler) mayHoldUnwell(who *machine) bool {
	closed, pool := s.countLike(who, func(m *machine) bool { return m.health == healthClosed })
	return closed < max(pool/unwellShare, 1)
}
