package store

import (
	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
)

// Held is a store in memory as one of several processes uses it. The process acts as a leader only under the name with
// which it took the leadership.
type Held struct {
	*Memory
	holder string
}

// HeldBy returns this store for the process with that name. No other process may have the name.
func (m *Memory) HeldBy(holder string) Held { return Held{m, holder} }

// Lead implements Store, under its holder's name.
func (h Held) Lead(string) (uint64, error) { return h.Memory.Lead(h.holder) }

// Leads returns ErrDeposed if the process does not lead.
func (h Held) Leads(epoch uint64) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.led(epoch, h.holder)
}

// Load implements Store.
func (h Held) Load(epoch uint64) (*actors.Loaded, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.led(epoch, h.holder); err != nil {
		return nil, err
	}
	return h.load(), nil
}

// Apply implements Store.
func (h Held) Apply(epoch uint64, changes []actors.Change) ([]actors.Verdict, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.led(epoch, h.holder); err != nil {
		return nil, err
	}
	return h.apply(changes), nil
}

// KeepScript implements Store.
func (h Held) KeepScript(epoch uint64, text []byte) error {
	if err := h.Leads(epoch); err != nil {
		return err
	}
	return h.Memory.KeepScript(epoch, text)
}

// PruneScripts implements Store.
func (h Held) PruneScripts(epoch uint64, limit int) (int, error) {
	if err := h.Leads(epoch); err != nil {
		return 0, err
	}
	return h.Memory.PruneScripts(epoch, limit)
}

// KeepPass implements Store.
func (h Held) KeepPass(epoch uint64, pass *messages.PassRecord) error {
	if err := h.Leads(epoch); err != nil {
		return err
	}
	return h.Memory.KeepPass(epoch, pass)
}

// DropPass implements Store.
func (h Held) DropPass(epoch uint64, id string) error {
	if err := h.Leads(epoch); err != nil {
		return err
	}
	return h.Memory.DropPass(epoch, id)
}

// Prune implements Store.
func (h Held) Prune(epoch uint64, finishedBeforeUnixMs int64, limit int) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.led(epoch, h.holder); err != nil {
		return 0, err
	}
	return h.prune(finishedBeforeUnixMs, limit), nil
}
