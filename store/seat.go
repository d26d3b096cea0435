package store

import "github.com/yi-json/synapse/actors"

// Seat is a store in memory as one of several processes reaches it: what it may
// do as a leader, it may do only as the holder under whose name it led.
type Seat struct {
	*Memory
	holder string
}

// Seat is this store for the process of that name, which names no other one.
func (m *Memory) Seat(holder string) Seat { return Seat{m, holder} }

// Lead implements Store, under the seat's own name.
func (s Seat) Lead(string) (uint64, error) { return s.Memory.Lead(s.holder) }

// Leads is ErrDeposed where the process does not lead, or no longer.
func (s Seat) Leads(epoch uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.led(epoch, s.holder)
}

// Load implements Store.
func (s Seat) Load(epoch uint64) (*actors.Loaded, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.led(epoch, s.holder); err != nil {
		return nil, err
	}
	return s.load(), nil
}

// Apply implements Store.
func (s Seat) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.led(epoch, s.holder); err != nil {
		return nil, err
	}
	return s.apply(changes), nil
}

// KeepScript implements Store.
func (s Seat) KeepScript(epoch uint64, text []byte) error {
	if err := s.Leads(epoch); err != nil {
		return err
	}
	return s.Memory.KeepScript(epoch, text)
}

// PruneScripts implements Store.
func (s Seat) PruneScripts(epoch uint64, limit int) (int, error) {
	if err := s.Leads(epoch); err != nil {
		return 0, err
	}
	return s.Memory.PruneScripts(epoch, limit)
}

// Prune implements Store.
func (s Seat) Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.led(epoch, s.holder); err != nil {
		return 0, err
	}
	return s.prune(finishedBeforeUnixMs, limit), nil
}
