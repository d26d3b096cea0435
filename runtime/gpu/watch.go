package gpu

import (
	"context"
	"slices"
	"sync"
	"time"
)

// This file watches devices while the agent runs. It reports a device that vanishes or fails. The node then takes the
// device out of service, and its gang ends at once. Without this report, the gang would end by its own timeout hours
// later. The watch also reports a device that is healthy again and stays so.

// Watching holds the settings of a watch.
type Watching struct {
	Finder *Finder
	// Devices lists the announced devices.
	Devices []Device
	// Every is the interval of checks; 0: 30 seconds.
	Every time.Duration
	// Tell is called for each unfit device at every check, because the receiver may be new. Tell must be
	// idempotent.
	Tell func(id, why string)
	// Well is called for each healthy device at every check, for the same reason.
	Well func(id string)
	// Uses receives the activity of the devices at every check; nil: it is not needed.
	Uses *Uses
	// Differ is called once if a complete check found other devices than the announced ones; nil: no call.
	Differ func()
	// KernelLog is the log to which NVIDIA's driver writes errors, /dev/kmsg; empty: none is read.
	KernelLog string
	// Note receives sentences for the operator.
	Note func(format string, arguments ...any)
}

// patience is the number of consecutive checks without a device after which it is withdrawn. A single check may fall
// into a reset or a busy moment of the driver. A fault that the driver reports counts at once.
const patience = 2

// A withdrawn device returns to service after a number of consecutive healthy checks. At first these take five minutes,
// because a device looks healthy before its reset is complete. Each further fault doubles the number, up to a day, so a
// device that fails repeatedly ends fewer gangs. After a healthy day, earlier faults are forgotten. The node does not
// wait for an operator, who would usually forget it.
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
	doubt  string // the last note about the driver as a whole
	differ bool   // the difference was reported
	xids   chan xid
	said   map[string]bool // Xids noted after the last check
}

// watched holds the watch's state of one device.
type watched struct {
	missed int
	told   string // why it was withdrawn; empty: it is in service
	well   int    // consecutive healthy checks
	faults int    // number of withdrawals; a healthy day resets it
}

// wait returns the number of healthy checks before the device may work. For a device that was never withdrawn, it is
// the minimum, because an earlier agent may have withdrawn it.
func (d *watched) wait() int {
	wait := wellAtFirst
	for i := 1; i < d.faults && wait < maxWell; i++ {
		wait *= 2
	}
	return min(wait, maxWell)
}

// StartWatch starts a watch. It does not watch declared devices, because their state is unknown.
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

// Close ends the watch and waits until it has ended.
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

// look compares the current devices with the announced ones.
func (w *Watch) look(ctx context.Context) {
	now, err := w.w.Finder.read(ctx)
	if ctx.Err() != nil {
		return // the program was killed with the agent, so its result means nothing
	}
	w.sayDoubt(now, err)
	fit := map[string]Device{}
	for _, d := range now.Devices {
		fit[d.Gpu.Id] = d
	}
	w.compare(now, fit, err)
	w.w.Uses.note(now.Devices)
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
			// The kernel shows the device, but the driver failed or did not answer. A running gang is not
			// ended for that, and the device is not returned to service.
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

// compare reports once that a start would announce other devices than this start did.
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

// again reports a withdrawn device until it returns to service.
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
	why := "the GPU has disappeared"
	if isNVIDIA(d) && err != nil {
		why = oneLine(err.Error())
	}
	w.giveUp(d, why)
}

// isWell counts a healthy check, and returns a device to service after enough of them.
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

// sayDoubt reports once that the driver cannot be asked, and once that it can be asked again.
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
