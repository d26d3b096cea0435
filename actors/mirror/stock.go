package mirror

import (
	"slices"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns how GPUs are counted: each thousandth of each device in exactly one state, and how much of what is
// free lies in places that are not free as a whole.

// Outage says why a node is out of service, as its GPUs are counted.
type Outage uint8

// The outages.
const (
	InService   Outage = iota
	Benched            // left out for a while after a refusal
	Closed             // by people, or because it is in trouble
	Unreachable        // dead, or not heard since this leader took over
	outages
)

// OutageWords name them; empty: it is none.
var OutageWords = [...]string{Benched: "benched", Closed: "closed", Unreachable: "unreachable"}

// StockState says how a GPU is used.
type StockState uint8

// The states, each without those before it.
const (
	StockUnreachable StockState = iota // on a machine that cannot be reached
	StockFailed                        // the device is out of service
	StockUsed                          // attempts have it
	StockBenched
	StockClosed
	StockKept // free, for a promise
	StockFree
	StockStates
)

// StockWords name the states.
var StockWords = [StockStates]string{"unreachable", "broken", "used", "benched", "closed", "kept", "free"}

// Stock is how many GPUs of one type there are, in thousandths, by state. Their sum is what machines announced.
type Stock struct {
	Type string
	Of   [StockStates]int64
}

func (m *Mirror) countMachines(c *Census) {
	types := map[string]*Stock{}
	var order []*Stock
	m.nodes.ascend("", func(_ string, s shownNode) bool {
		if s.GetRecord().GetAnnouncement() == nil {
			return true
		}
		if at := slices.Index(MachinePhases, s.GetPhase()); at >= 0 {
			c.Machines[at]++
		}
		c.Outages[s.outage]++
		kind := ""
		if gpus := s.GetRecord().GetAnnouncement().GetGpus(); len(gpus) > 0 {
			kind = gpus[0].GetType()
		}
		if types[kind] == nil {
			types[kind] = &Stock{Type: kind}
			order = append(order, types[kind])
		}
		types[kind].count(&s, m.keptOn(s.GetRecord().GetId()))
		return true
	})
	for _, one := range order {
		if one.Of != [StockStates]int64{} {
			c.Stocks = append(c.Stocks, *one)
		}
	}
	slices.SortFunc(c.Stocks, func(a, b Stock) int { return strings.Compare(a.Type, b.Type) })
}

// keptOn is how much of a machine's GPUs is kept for promises.
func (m *Mirror) keptOn(id string) (kept int64) {
	m.picture.fabric.EachKept(topology.NodeID(id), func(_ topology.KeepID, amount topology.Resources) {
		kept += amount.MilliGPU
	})
	return kept
}

// count puts each of a machine's GPUs into one state.
func (k *Stock) count(s *shownNode, kept int64) {
	total := s.GetRecord().GetAnnouncement().GetTotal().GetMilliGpu()
	if s.GetPhase() != messages.NodeUp {
		k.Of[StockUnreachable] += total
		return
	}
	failed := min(int64(actors.OutOfService(s.GetRecord().GetAnnouncement(), s.GetLedger()))*topology.WholeGPU, total)
	free := min(s.GetLedger().GetFree().GetMilliGpu(), total-failed)
	k.Of[StockFailed] += failed
	k.Of[StockUsed] += total - failed - free
	switch s.outage {
	case Benched:
		k.Of[StockBenched] += free
	case Closed, Unreachable:
		k.Of[StockClosed] += free
	default:
		kept = min(kept, free)
		k.Of[StockKept] += kept
		k.Of[StockFree] += free - kept
	}
}

// LevelRoom is how the free GPUs lie in the places of one level, in thousandths.
type LevelRoom struct {
	Level   string
	Places  int
	Largest int64 // the most that is free in one place
	// Scattered is what is free in places that are not free as a whole: no use to a gang that wants all of one.
	Scattered int64
}

// levelRooms counts level by level. The fabric is walked place by place, so the machines of a place come one after
// another.
func (p *picture) levelRooms() []LevelRoom {
	levels := p.fabric.Levels()
	rooms, open := make([]LevelRoom, len(levels)), make([]domain, len(levels))
	for i := range levels {
		rooms[i].Level = levels[i]
	}
	var last []string
	p.fabric.Walk(func(m topology.Machine, free topology.Capacity, why string) {
		now := append(slices.Clone(m.Place), string(m.ID))
		changed := last == nil
		for i := range levels {
			if changed = changed || now[i] != last[i]; changed {
				open[i].close(&rooms[i])
				open[i] = domain{}
			}
			open[i].machines++
			open[i].total += m.Total.MilliGPU + int64(m.Broken)*topology.WholeGPU
			if why == "" {
				open[i].free += gpusOf(free)
			}
		}
		last = now
	})
	for i := range levels {
		open[i].close(&rooms[i])
	}
	return rooms
}

// domain counts one domain of a level, while its machines are walked.
type domain struct {
	machines    int
	total, free int64
}

func (d *domain) close(r *LevelRoom) {
	if d.machines == 0 {
		return
	}
	r.Places++
	r.Largest = max(r.Largest, d.free)
	if d.free < d.total {
		r.Scattered += d.free
	}
}

func gpusOf(c topology.Capacity) int64 {
	sum := int64(c.WholeGPUs) * topology.WholeGPU
	for _, part := range c.Parts {
		sum += part
	}
	return sum
}
