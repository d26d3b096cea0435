package gpu

import (
	"context"
	"slices"
	"sync"
	"time"
)

// This file owns the watch over devices while the agent runs: what vanishes or
// faults is told, so that the machine takes it out of service and the gang on it
// ends at once, and not by its own time-out hours later. What is well again, and
// stays so, is told too.

// Watching holds the settings of a watch.
type Watching struct {
	Finder *Finder
	// Devices are those that were announced.
	Devices []Device
	// Every is the time between two looks; 0: 30 seconds.
	Every time.Duration
	// Tell is called for each device that is unfit, at every look: the receiver may not have been there before, and does
	// the same twice without harm.
	Tell func(id, why string)
	// Well is told of each device that is fit and may work, at every look, for the same reason.
	Well func(id string)
	// Differ is called once, when a look that saw everything saw other devices than were announced; nil: nobody asks.
	Differ func()
	// KernelLog is where NVIDIA's driver writes what went wrong, /dev/kmsg; empty: it is not read.
	KernelLog string
	// Note gets sentences for the operator.
	Note func(format string, arguments ...any)
}

// patience is how many looks in a row must miss a device before it is given up:
// one may fall into a reset, or into a moment when the driver was busy. What the
// driver itself says of a device counts at once.
const patience = 2

// How many looks in a row a device must be well before it is given back. It is five
// minutes at first, since a device that was reset is seen well before whoever reset
// it is done with it; and twice as many after each further fault, up to a day, so
// that one that fails again and again ends ever fewer gangs. A device that was well
// for a day since then is taken for mended. A machine is not left to wait for an
// operator's word: it would mostly be forgotten, and a reboot gave the same answer.
const (
	wellAtFirst = 10
	maxWell     = 2880
)

const defaultEvery = 30 * time.Second

// Watch runs until it is closed.
type Watch struct {
	w      Watching
	cancel context.CancelFunc
	done   sync.WaitGroup
	state  map[string]*watched
	doubt  string // what was last said about the driver as a whole
	differ bool   // that there are others was told
	xids   chan xid
	said   map[string]bool // of Xids since the last look
}

// watched holds the watch's state of one device.
type watched struct {
	missed int
	told   string // why it was given up; empty: it was not, or is given back
	well   int    // looks in a row that saw it so
	faults int    // how often it was given up since it was last taken for mended
}

// wait is how many looks must see it well before it may work. Of a device that was
// not given up it is the shortest: an earlier agent may have done that.
func (d *watched) wait() int {
	wait := wellAtFirst
	for i := 1; i < d.faults && wait < maxWell; i++ {
		wait *= 2
	}
	return min(wait, maxWell)
}

// StartWatch begins to watch. Declared devices are not watched: nothing is known of them.
func StartWatch(w Watching) *Watch {
	if w.Every <= 0 {
		w.Every = defaultEvery
	}
	ctx, cancel := context.WithCancel(context.Background())
	watch := newWatch(w)
	watch.cancel = cancel
	if len(watch.state) > 0 {
		watch.done.Go(func() { watch.run(ctx) })
		if w.KernelLog != "" && slices.ContainsFunc(w.Devices, isNVIDIA) {
			watch.done.Go(func() { watch.listen(ctx) })
		}
	}
	return watch
}

func newWatch(w Watching) *Watch {
	watch := &Watch{w: w, state: map[string]*watched{}, xids: make(chan xid, 16), said: map[string]bool{}}
	for _, d := range w.Devices {
		if !d.Gpu.Declared {
			watch.state[d.Gpu.Id] = &watched{}
		}
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
		clear(w.said)
		for looked := true; looked; {
			select {
			case <-ctx.Done():
				return
			case x := <-w.xids:
				w.onXid(x)
			case <-tick.C:
				looked = false
			}
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
	w.compare(now, fit, err)
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
		case now.indirect && isNVIDIA(d) && (there || now.seen[d.Parent]):
			// The kernel shows it, and whoever knows more fails or does not answer. A gang that trains is not ended for
			// that, and nothing is given back for it.
			state.well = 0
			if !now.silent {
				state.missed = 0
			}
			w.again(d)
		case there:
			w.isWell(d)
		default:
			w.miss(d, now, err)
		}
	}
}

// compare tells once that a start would announce other devices than this one did.
func (w *Watch) compare(now *Inventory, fit map[string]Device, err error) {
	if w.differ || w.w.Differ == nil || err != nil || now.silent || now.indirect && len(now.seen) > 0 {
		return
	}
	same := len(fit) == len(w.state)
	for id := range w.state {
		_, there := fit[id]
		same = same && there
	}
	if !same {
		w.differ = true
		w.w.Differ()
	}
}

func (w *Watch) giveUp(d Device, why string) {
	state := w.state[d.Gpu.Id]
	if state.told == "" {
		state.told = why
		state.faults++
	}
	state.well = 0
	w.again(d)
}

// again tells of a device that was given up, until it is given back.
func (w *Watch) again(d Device) {
	if why := w.state[d.Gpu.Id].told; why != "" {
		w.w.Tell(d.Gpu.Id, why)
	}
}

func (w *Watch) miss(d Device, now *Inventory, err error) {
	state := w.state[d.Gpu.Id]
	state.well = 0
	if state.missed++; state.missed < patience {
		w.again(d)
		return
	}
	why := "it is no longer there"
	if isNVIDIA(d) && err != nil {
		why = oneLine(err.Error())
	}
	w.giveUp(d, why)
}

// isWell counts, and gives a device back that has been well for long enough.
func (w *Watch) isWell(d Device) {
	state := w.state[d.Gpu.Id]
	state.missed = 0
	state.well = min(state.well+1, maxWell)
	wait := state.wait()
	switch {
	case state.well < wait:
		if state.told != "" && state.well == 1 {
			w.w.Note("GPU %s looks healthy again; it returns to service after %d healthy checks in a "+
				"row", d.Gpu.Id, wait)
		}
		w.again(d)
		return
	case state.told != "":
		w.w.Note("GPU %s was healthy in %d checks and returns to service; it was withdrawn because %s",
			d.Gpu.Id, wait, state.told)
		state.told = ""
	}
	if state.well == maxWell {
		state.faults = 0
	}
	w.w.Well(d.Gpu.Id)
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
		w.w.Note("The GPU driver answers again")
	} else {
		w.w.Note("The GPUs cannot be checked: %s", doubt)
	}
	w.doubt = doubt
}
