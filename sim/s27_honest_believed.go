package sim

// honestBelieved is S27: a leader disbelieves no machine that keeps honest books,
// whatever is lost, late, doubled, restarted or changed between two starts of its
// agent.
type honestBelieved struct{ notQuiet }

func newHonestBelieved() *honestBelieved { return &honestBelieved{} }

func (*honestBelieved) Name() string         { return "S27 honest-believed" }
func (*honestBelieved) Watches() []EventKind { return []EventKind{Scanned} }

func (c *honestBelieved) Step(w *World, _ *Event) {
	if w.counters["scheduler.untrue"] == 0 {
		return
	}
	for _, m := range w.machines {
		if m.lied {
			return // it is the one, or nobody can tell
		}
	}
	w.violate(c.Name(), "a machine was disbelieved, and none has lied")
}
