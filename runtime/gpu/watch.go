package gpu

import (
	"context"
	"sync"
	"time"
)

// This file owns the watch over devices while the agent runs: what vanishes or
// faults is told, so that the machine takes it out of service and the gang on it
// ends at once, and not by its own time-out hours later.

// Watching is what a watch needs.
type Watching struct {
	Finder *Finder
	// Devices are those that were announced.
	Devices []Device
	// Every is the time between two looks; 0: 30 seconds.
	Every time.Duration
	// Tell is told of each device that is unfit, at every look: whoever it is told to may
	// not have been there before, and hears it again without harm.
	Tell func(id, why string)
	// Note gets sentences for the operator.
	Note func(format string, arguments ...any)
}

// patience is how many looks in a row must miss a device before it is given up:
// one may fall into a reset, or into a moment when the driver was busy. What the
// driver itself says of a device counts at once.
const patience = 2

const defaultEvery = 30 * time.Second

// Watch runs until it is closed.
type Watch struct {
	w      Watching
	cancel context.CancelFunc
	done   sync.WaitGroup
	state  map[string]*watched
	doubt  string // what was last said about the driver as a whole
}

// watched is what the watch knows of one device.
type watched struct {
	missed int
	told   string // why it was given up; empty: it was not
	back   bool   // it was seen fit again since
}

// StartWatch begins to watch. Declared devices are not watched: nothing is known of them.
func StartWatch(w Watching) *Watch {
	if w.Every <= 0 {
		w.Every = defaultEvery
	}
	ctx, cancel := context.WithCancel(context.Background())
	watch := &Watch{w: w, cancel: cancel, state: map[string]*watched{}}
	for _, d := range w.Devices {
		if !d.Gpu.Declared {
			watch.state[d.Gpu.Id] = &watched{}
		}
	}
	if len(watch.state) > 0 {
		watch.done.Go(func() { watch.run(ctx) })
	}
	return watch
}

// Close ends the watch, and waits until it has ended.
func (w *Watch) Close() {
	w.cancel()
	w.done.Wait()
}

func (w *Watch) run(ctx context.Context) {
	tick := time.NewTicker(w.w.Every)
	defer tick.Stop()
	for {
		w.look(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// look compares what is there with what was announced.
func (w *Watch) look(ctx context.Context) {
	now, err := w.w.Finder.read(ctx)
	if ctx.Err() != nil {
		return // what was killed with us tells nothing
	}
	w.sayDoubt(now, err)
	fit := map[string]Device{}
	for _, d := range now.Devices {
		fit[d.Gpu.Id] = d
	}
	for _, d := range w.w.Devices {
		state := w.state[d.Gpu.Id]
		if state == nil {
			continue
		}
		seen, there := fit[d.Gpu.Id]
		switch why := now.lost[d.Gpu.BusId]; {
		case seen.Fault != "":
			w.giveUp(d, seen.Fault)
		case why != "":
			w.giveUp(d, why)
		case now.silent && isNVIDIA(d) && (there || now.seen[d.Parent]):
			// The kernel shows it, and whoever knows more does not answer. A gang that trains is not ended for that.
		case there, d.Parent != "" && now.indirect && now.seen[d.Parent]:
			w.isFit(d)
		default:
			w.miss(d, now, err)
		}
	}
}

func (w *Watch) giveUp(d Device, why string) {
	state := w.state[d.Gpu.Id]
	if state.told == "" {
		state.told = why
	}
	state.back = false
	w.w.Tell(d.Gpu.Id, state.told)
}

func (w *Watch) miss(d Device, now *Inventory, err error) {
	state := w.state[d.Gpu.Id]
	if state.missed++; state.missed < patience {
		return
	}
	why := "it is no longer there"
	if isNVIDIA(d) && err != nil {
		why = oneLine(err.Error())
	}
	w.giveUp(d, why)
}

// isFit: a device that was given up stays so until the machine boots. A gang that
// ran on it was told that it failed, and what is wrong with it may come back under
// the next one; whoever has looked into it reboots the machine.
func (w *Watch) isFit(d Device) {
	state := w.state[d.Gpu.Id]
	state.missed = 0
	if state.told == "" {
		return
	}
	if !state.back {
		state.back = true
		w.w.Note("GPU %s looks well again; it stays withdrawn until the machine boots", d.Gpu.Id)
	}
	w.w.Tell(d.Gpu.Id, state.told)
}

// sayDoubt tells once when the driver cannot be asked, and once when it can again.
func (w *Watch) sayDoubt(now *Inventory, err error) {
	doubt := ""
	switch {
	case err != nil:
		doubt = oneLine(err.Error())
	case now.silent:
		doubt = w.w.Finder.smi.name + " did not answer"
	}
	if doubt == w.doubt {
		return
	}
	if doubt == "" {
		w.w.Note("the GPUs' driver answers again")
	} else {
		w.w.Note("the GPUs cannot be looked at: %s", doubt)
	}
	w.doubt = doubt
}
