package topology

// This file owns how the numbers of a refusal are read: in amounts of the resource that the gang is short of.

// Scarce returns the part of an amount that the gang is short of: GPUs if it asks for any, else CPU, else memory.
func (r *Refusal) Scarce(a Resources) Resources {
	switch {
	case r.rate.gpus > 0 || r.rate.part > 0:
		return Resources{MilliGPU: a.MilliGPU}
	case r.rate.cpu > 0:
		return Resources{MilliCPU: a.MilliCPU}
	}
	return Resources{MemoryBytes: a.MemoryBytes}
}

// Space returns what the nodes that match the gang have in the domain of the refusal, of what the gang is short of. The
// gang can use no more than usable of what is free.
func (r *Refusal) Space() (free, total, usable Resources) {
	return r.scarce(r.Free), r.scarce(r.Total), r.scarce(min(r.Room*r.unit(), r.Free))
}

// scarce returns an amount in the unit of Free and Total as resources.
func (r *Refusal) scarce(n int64) Resources {
	return r.Scarce(Resources{MilliCPU: n, MemoryBytes: n, MilliGPU: n * WholeGPU})
}

// Lack returns what one unit of the gang asks for and the nearest node does not have, and what it has of that.
func (n *Nearest) Lack() (asked, has Resources) {
	if n.Asked.MilliGPU > n.Has.MilliGPU {
		asked.MilliGPU, has.MilliGPU = n.Asked.MilliGPU, n.Has.MilliGPU
	}
	if n.Asked.MilliCPU > n.Has.MilliCPU {
		asked.MilliCPU, has.MilliCPU = n.Asked.MilliCPU, n.Has.MilliCPU
	}
	if n.Asked.MemoryBytes > n.Has.MemoryBytes {
		asked.MemoryBytes, has.MemoryBytes = n.Asked.MemoryBytes, n.Has.MemoryBytes
	}
	return asked, has
}

// constraintWords are the kinds of constraints as programs read them.
var constraintWords = [...]string{
	OnExcluded: "excluded", OnNamed: "named", OnApart: "apart", OnMemory: "memory", OnCPU: "cpu", OnLabel: "label",
	OnGPUType: "gpu-type", OnWhole: "whole", OnService: "unavailable", OnLevel: "level", OnKept: "reserved",
	OnOthers: "others", OnSize: "size",
}

// Word returns the kind of a constraint as programs read it.
func (k ConstraintKind) Word() string { return constraintWords[k] }

// Name returns the name of the label, the GPU type or the level that a constraint is about.
func (c Constraint) Name() string {
	switch c.Kind {
	case OnLabel:
		return c.Label.words()
	case OnLevel:
		return c.Level
	}
	return c.Text
}

// CountText writes thousandths of a GPU or of a core: 16, 0.5.
func CountText(milli int64) string { return decimal(milli) }

// BytesText writes an amount of memory: 512 GiB.
func BytesText(n int64) string { return bytes(n) }
