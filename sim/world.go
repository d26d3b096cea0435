package sim

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/published"
	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file builds the simulated world: its parts, and their connections.

// World is one simulated cluster.
type World struct {
	sharing   sharing
	opts      Options
	draw      Draw
	constants actors.Constants
	engine    *engine
	net       *generator // source for the network
	chance    *generator // source for disks, stores, launchers and leaders
	crown     *generator // source for elections
	toil      *generator // source for the duration of steps
	luck      *generator // source for faults
	jobs      *generator // source for submitted jobs
	kept      *generator // source for how long nodes keep files of tasks
	ills      *generator // source for the duration of health checks
	limiting  *generator // source for the stated durations of jobs

	endpoints   map[string]*endpoint
	machines    []*machine
	clones      []*machine
	foreign     []*machine // nodes of another cluster
	visits      int        // number of such nodes so far
	schedulers  []*schedulerHost
	leading     *schedulerHost
	led         *schedulerHost // the last one that led; its process may be dead
	elections   int
	ledSince    instant
	store       *storage
	books       *books
	uids        uidLook
	steps       map[saveKey]int64          // steps that gangs save on request
	hung        hungGangs                  // the gangs that hang
	inPlace     map[topology.Token]instant // by heir: the first barrier in its place
	loss        loss                       // records that restores have removed from the store
	client      *client
	old         *published.Version // vocabulary of processes of the previous version
	ledByOld    bool               // such a process leads, or led last
	oldLedUntil instant            // when such a process last led
	ranting     bool               // the present message comes from no actor
	hostile     *hostility         // how the network misbehaves; nil: streams in order
	lateUntil   instant            // when the last late letter will have arrived
	faults      *faults
	breaking    *breaking // the planned panic of an actor; nil: none
	snares      []snare

	checking   bool
	checks     []Invariant
	byKind     [eventKinds][]Invariant
	violations []Violation
	event      Event
	observer   *observer
	gaps       *gaps    // nil: not requested
	current    *mailbox // the mailbox whose actor runs now

	processes int
	jobIDs    int
	sent      uint64  // number of letters
	apart     instant // distance between occurrences that must not overtake each other
	delivered uint64
	writes    int // calls to stores and disks that are in progress
	buffer    []byte
	counters  map[string]int64
	edges     map[Taken]int
	meetings  map[Meeting]bool // nil: not requested
	strikes   []strike
	recent    []logLine // the last log lines, for a run that fails
	recentAt  int
	lingering bool // load continues only for faults that have not had their chance
	healed    bool // the faults are repaired …
	healedAt  instant
	settling  time.Duration          // how long all jobs may take to finish after that
	resting   bool                   // … no client sends requests any more …
	idling    bool                   // … and nothing should happen any more
	running   map[topology.Token]int // started members of each attempt
	gangs     int                    // number of gangs that ran
	notable   func(logLine)
	onLetter  func(Letter)
	onTask    func(Happening)
	lasts     func(topology.JobID) time.Duration
	lose      func(Letter) bool
}

// Taken is a step that a state machine took.
type Taken struct {
	Kind            actors.Kind
	From, Event, To string
}

// NewWorld builds a cluster and schedules the start of everything in it. Nothing happens until Run or StepUntil is
// called.
func NewWorld(o Options) (*World, error) {
	seed := newSource(o.Seed)
	d, err := draw(o, seed.fork("draw"))
	if err != nil {
		return nil, err
	}
	w := &World{
		opts: o, draw: d, constants: actors.DefaultConstants(), engine: newEngine(seed),
		net: seed.fork("net"), chance: seed.fork("chance"), crown: seed.fork("crown"), toil: seed.fork("toil"),
		luck: seed.fork("luck"), jobs: seed.fork("jobs"), kept: seed.fork("kept"), ills: seed.fork("ills"),
		limiting:  seed.fork("limiting"),
		sharing:   sharing{source: seed.fork("sharing"), owners: seed.fork("owners")},
		endpoints: map[string]*endpoint{}, steps: map[saveKey]int64{}, counters: map[string]int64{}, edges: map[Taken]int{},
		hung:     hungGangs{},
		inPlace:  map[topology.Token]instant{},
		running:  map[topology.Token]int{},
		checking: !o.Unchecked,
	}
	if o.Meet {
		w.meetings = map[Meeting]bool{}
	}
	if d.RosterPart > 0 {
		w.constants.RosterPart = d.RosterPart
	}
	if o.Constants != nil {
		w.constants = *o.Constants
	}
	// A step takes up to 20 µs in a small cluster. In a large cluster so many actors run that sequential steps of
	// this length would take too long.
	w.engine.costMax, w.apart = max(200, 20_000*64/max(d.Machines, 64)), 1
	if o.Prompt {
		w.prompt()
	}
	w.store = &storage{w: w, kept: store.NewMemory()}
	w.store.kept.HoldSync()
	w.books = newBooks(w)
	w.loss.tokens = map[topology.Token]bool{}
	w.build()
	w.traceTo(o.Trace)
	if o.Plain && !o.Unchecked { // one look per second would be most of the cost of a quiet month
		w.scan()
	}
	return w, nil
}

func (w *World) build() {
	gpus := []int{8}
	if w.opts.World != "big" && !w.opts.Plain {
		gpus = []int{8, 8, 8, 8, 4, 8, 8, 8}
	}
	if len(w.opts.GPUs) > 0 {
		gpus = w.opts.GPUs
	}
	for i := range w.draw.Machines {
		w.machines = append(w.machines, w.newMachine(i, gpus[i%len(gpus)]))
	}
	for i := range w.draw.Schedulers {
		w.schedulers = append(w.schedulers, w.newSchedulerHost(i))
	}
	w.client = newClient(w)
	w.faults = newFaults(w)
	w.faults.strayClocks()
	if w.checking {
		w.observer = newObserver(w)
		w.checks = newInvariants()
		for _, inv := range w.checks {
			for _, kind := range inv.about().watches {
				w.byKind[kind] = append(w.byKind[kind], inv)
			}
		}
		if w.opts.Gaps {
			w.gaps = newGaps(w.checks)
		}
	}
	for _, h := range w.schedulers {
		h.start()
	}
	for _, m := range w.machines {
		w.engine.after(w.chance.between(0, 2e9), m.powerOn)
	}
}

// newMachine adds a node to its rack.
func (w *World) newMachine(index, gpus int) *machine {
	rack := w.rackOf(index)
	m := &machine{w: w, index: index, id: NodeID(index + 1), disk: &disk{w: w}}
	m.earlier = slices.Contains(w.opts.Earlier, index+1)
	m.address = "node-" + string(m.id)
	m.machineID = "machine-" + string(m.id)
	m.old = w.oldVersion() != nil
	m.clock = w.newClock()
	m.launcher = newLauncher(w, m)
	a := &messages.Announcement{
		Total:   &messages.Resources{MilliCpu: 96_000, MemoryBytes: 768 << 30, MilliGpu: int64(gpus) * topology.WholeGPU},
		Address: fmt.Sprintf("10.%d.%d.%d", index>>16, index>>8&255, index&255), PortFirst: 20_000, PortLast: 20_099,
		AgentVersion: "sim",
	}
	if m.unversed = m.earlier; !m.earlier {
		a.Networks = []messages.Network{messages.Network_NETWORK_NONE, messages.Network_NETWORK_PRIVATE}
	}
	if w.opts.LongNames {
		a.Address = fmt.Sprintf("%0*d", messages.MaxValueBytes, index)
	}
	for g := range gpus {
		a.Gpus = append(a.Gpus, &messages.Gpu{
			Id: fmt.Sprintf("%s-gpu-%d", m.id, g), Type: "H100", MemoryBytes: 80 << 30, Minor: int32(g),
		})
	}
	for _, level := range w.draw.Levels {
		place := fmt.Sprintf("rack-%03d", rack)
		if level == "block" {
			place = fmt.Sprintf("block-%02d", rack/2)
		}
		a.Place = append(a.Place, &messages.Label{Key: level, Value: place})
	}
	m.announcement = a
	w.endpoints[m.address] = &endpoint{address: m.address, machine: m}
	return m
}

// machine returns a node by its ID.
func (w *World) machine(id string) *machine {
	if e := w.endpoints["node-"+id]; e != nil {
		return e.machine
	}
	return nil
}

// leader returns the process that leads according to the store, or nil.
func (w *World) leader() *process {
	if w.leading == nil || w.leading.proc == nil || w.leading.proc.epoch == 0 {
		return nil
	}
	return w.leading.proc
}

func (w *World) count(name string, n int64) { w.counters[name] += n }

// mailed checks a mailbox that grew.
func (w *World) mailed(m *mailbox) {
	if n := m.user.len(); n >= mailboxMost && !m.proc.paused && w.checking {
		w.crowded(m, n)
	}
}

// Counters returns the counters of the actors and of the world.
func (w *World) Counters() map[string]int64 { return w.counters }

// Violations returns the findings of the checkers.
func (w *World) Violations() []Violation { return w.violations }

func copyOf[M messages.Message](m M) M { return proto.Clone(m).(M) }

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}
