package mirror

import (
	"slices"
	"strings"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the counts of GPUs. Each thousandth of each device is in exactly one state. The counts also show how
// much free capacity is in domains that are partly used.

// Outage is the cause for which a node takes no new work, in the counts of GPUs.
type Outage uint8

// These are the outages.
const (
	InService   Outage = iota
	BackedOff          // backed off for a while after a refusal
	Closed             // by an operator, or because the node is unhealthy
	Unreachable        // dead, or not heard by this leader yet
	outages
)

// OutageWords holds the names of the outages. InService has no name.
var OutageWords = [...]string{BackedOff: "benched", Closed: "closed", Unreachable: "unreachable"}

// StockState is the state of a GPU in the counts.
type StockState uint8

// A GPU counts in the first of these states that applies.
const (
	StockUnreachable StockState = iota // on an unreachable node
	StockFailed                        // the device is out of service
	StockUsed                          // held by attempts
	StockBackedOff
	StockClosed
	StockKept // free and reserved
	StockFree
	StockStates
)

// StockWords holds the names of the states.
var StockWords = [StockStates]string{"unreachable", "broken", "used", "benched", "closed", "kept", "free"}

// Stock counts the GPUs of one type by state, in thousandths of a GPU. The sum over all states is the announced amount.
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

// keptOn returns the GPUs that are reserved on a node.
func (m *Mirror) keptOn(id string) (kept int64) {
	m.picture.tree.EachKept(topology.NodeID(id), func(_ topology.KeepID, amount topology.Resources) {
		kept += amount.MilliGPU
	})
	return kept
}

// count adds each GPU of a node to one state.
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
	case BackedOff:
		k.Of[StockBackedOff] += free
	case Closed, Unreachable:
		k.Of[StockClosed] += free
	default:
		kept = min(kept, free)
		k.Of[StockKept] += kept
		k.Of[StockFree] += free - kept
	}
}

// LevelRoom holds the distribution of free GPUs over the domains of one level, in thousandths of a GPU.
type LevelRoom struct {
	Level   string
	Places  int
	Largest int64 // free GPUs of the domain that has most
	// Scattered counts the free GPUs in domains that are partly used. A gang that needs an entire domain cannot use them.
	Scattered int64
}

// levelRooms counts the free GPUs of each level. It walks the topology tree domain by domain, so the nodes of a domain
// are adjacent.
func (p *picture) levelRooms() []LevelRoom {
	levels := p.tree.Levels()
	rooms, open := make([]LevelRoom, len(levels)), make([]domain, len(levels))
	for i := range levels {
		rooms[i].Level = levels[i]
	}
	var last []string
	p.tree.Walk(func(m topology.Machine, free topology.Capacity, why string) {
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

// domain holds the counts of one domain during the walk over its nodes.
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
