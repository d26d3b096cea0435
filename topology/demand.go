package topology

// This file reduces every form of request to one form: a number of units, and the amount that one unit takes from a
// node.
//
//	replicas            one unit is a replica
//	total, any          one unit is a GPU; CPU and memory in proportion
//	total, whole        the same, and all nodes but one are taken whole
//	total without GPUs  one unit is a core (a milli-CPU if the total is not
//	                    in whole cores); memory in proportion
//	a share of a GPU    one unit, on one device
//
// Two gangs that differ only in their number of units use the same index.

import (
	"math/bits"
	"slices"
	"strconv"
)

// unitLimit limits the units that are counted on one node. No gang is that large.
const unitLimit = 1 << 24

// rate holds the amounts that units take: h units need gpus·h devices, and the given amounts of CPU and memory · h /
// den, rounded up.
type rate struct {
	gpus, cpu, mem int64
	den            int64
	part           int64 // thousandths of one device; there is one unit if this is set
	whole          bool
	apart          bool // a node holds at most one unit
}

type demand struct {
	rate
	units   int64
	gpuType string
	problem string // why no cluster could run this gang; "" for a valid gang
}

// demandOf reduces a gang.
func demandOf(g *Gang) demand {
	d := demand{gpuType: g.GPUType}
	if g.Split == SplitNone {
		d.problem = d.setReplicas(g.Each, int64(g.Replicas))
		d.apart = g.Apart && g.Replicas > 1
	} else {
		d.problem = d.setTotal(g.Total, g.Split)
	}
	return d
}

func (d *demand) setReplicas(each Resources, replicas int64) string {
	switch {
	case replicas <= 0:
		return "requests no tasks"
	case each.IsNegative():
		return "requests a negative amount"
	case each.IsZero():
		return "requests no resources"
	case each.MilliGPU > WholeGPU && each.MilliGPU%WholeGPU != 0:
		return "requests both whole GPUs and a share of a GPU"
	}
	d.units = replicas
	d.rate = rate{cpu: each.MilliCPU, mem: each.MemoryBytes, den: 1, gpus: each.MilliGPU / WholeGPU}
	if each.MilliGPU%WholeGPU == 0 {
		return ""
	}
	d.part = each.MilliGPU
	if replicas > 1 {
		return "requests a share of a GPU for several tasks"
	}
	return ""
}

func (d *demand) setTotal(total Resources, split Split) string {
	gpus, cpu, mem := total.MilliGPU/WholeGPU, total.MilliCPU, total.MemoryBytes
	switch {
	case total.MilliGPU > 0 && total.MilliGPU < WholeGPU, total.MilliGPU == 0 && cpu == 0, total.IsNegative():
		return d.setReplicas(total, 1)
	case total.MilliGPU%WholeGPU != 0:
		return "requests both whole GPUs and a share of a GPU"
	case gpus > 0:
		k := divisor(gpus, divisor(cpu, mem))
		d.units = gpus
		d.rate = rate{gpus: 1, cpu: cpu / k, mem: mem / k, den: gpus / k, whole: split == SplitWhole && gpus > 1}
	default:
		core := coreOf(cpu)
		d.units = cpu / core
		k := divisor(d.units, mem)
		d.rate = rate{cpu: core * (d.units / k), mem: mem / k, den: d.units / k}
	}
	return ""
}

// coreOf returns the unit of CPU: a whole core if the total is in whole cores, so that no task gets a fraction of a
// core.
func coreOf(milliCPU int64) int64 {
	if milliCPU%1000 == 0 {
		return 1000
	}
	return 1
}

func divisor(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// need returns the largest amount that h units take from a node. The exact share of a total can be smaller by one unit
// of CPU or memory.
func (r *rate) need(h int64) Resources {
	return Resources{
		MilliCPU:    mulDivWide(r.cpu, h, r.den, uint64(r.den)-1),
		MemoryBytes: mulDivWide(r.mem, h, r.den, uint64(r.den)-1),
		MilliGPU:    r.gpus*h*WholeGPU + r.part,
	}
}

// fit returns the number of units that a room holds, for a rate without a part.
func (r *rate) fit(m *room) int64 {
	h := int64(unitLimit)
	if r.gpus > 0 {
		h = int64(m.whole) / r.gpus
	}
	if r.cpu > 0 {
		h = min(h, mulDiv(m.cpu, r.den, r.cpu))
	}
	if r.mem > 0 {
		h = min(h, mulDiv(m.mem, r.den, r.mem))
	}
	return r.capped(h)
}

// capped returns the number of units that a node may get, out of h that fit.
func (r *rate) capped(h int64) int64 {
	if r.apart {
		return min(h, 1)
	}
	return h
}

// mulDiv returns a·b/c rounded down, for amounts that are not negative. It does not overflow: larger results become
// unitLimit².
func mulDiv(a, b, c int64) int64 {
	if b == 1 {
		return a / c
	}
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	if hi >= uint64(c) {
		return unitLimit * unitLimit
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, unitLimit*unitLimit))
}

// mulDivWide returns (a·b+plus)/c. Larger results become the largest int64.
func mulDivWide(a, b, c int64, plus uint64) int64 {
	const most = 1<<63 - 1
	hi, lo := bits.Mul64(uint64(a), uint64(b))
	lo, carry := bits.Add64(lo, plus, 0)
	hi += carry
	if hi >= uint64(c) {
		return most
	}
	q, _ := bits.Div64(hi, lo, uint64(c))
	return int64(min(q, most))
}

// Scaled returns a·b/c rounded up. Negative arguments count as 0, and larger results become the largest int64.
func Scaled(a, b, c int64) int64 { return mulDivWide(max(a, 0), max(b, 0), c, uint64(c)-1) }

// Shape holds the properties that determine the placement of a gang. Gangs with equal shapes always get the same
// placement or refusal, so a shape is a key for cached results.
type Shape struct {
	replicas            int32
	split               Split
	each, total         Resources
	gpuType             string
	required, preferred string
	selector            string
	only, exclude       string
	avoid, closing      string
	vocabulary          int32
	account             Account
	apart               bool
}

// Shape returns the shape of a gang.
func (g Gang) Shape() Shape {
	s := Shape{split: g.Split, gpuType: g.GPUType, required: g.Required, preferred: g.Preferred,
		vocabulary: g.Vocabulary, account: g.Account}
	if g.Split == SplitNone {
		s.replicas, s.each, s.apart = g.Replicas, g.Each, g.Apart && g.Replicas > 1
	} else {
		s.total = g.Total
	}
	if len(g.Selector) > 0 {
		labels := slices.Clone(g.Selector)
		sortLabels(labels)
		s.selector = string(appendLabels(nil, slices.Compact(labels)))
	}
	s.only, s.exclude = string(appendNames(nil, slices.Clone(g.Only))), string(appendNames(nil, slices.Clone(g.Exclude)))
	s.avoid, s.closing = string(appendNames(nil, slices.Clone(g.Avoid))), string(appendNames(nil, slices.Clone(g.Closing)))
	return s
}

// appendNames appends a text of a set of names. The text does not depend on their order. It sorts the names.
func appendNames[ID ~string](b []byte, ids []ID) []byte {
	slices.Sort(ids)
	for _, id := range slices.Compact(ids) {
		b = append(strconv.AppendInt(b, int64(len(id)), 10), ':')
		b = append(b, id...)
	}
	return b
}
