package topology

// This file expresses the numbers of a refusal in amounts of the resource that is short.

// Scarce returns the part of an amount that is short: GPUs if the gang requests any, else CPU, else memory.
func (r *Refusal) Scarce(a Resources) Resources {
	switch {
	case r.rate.gpus > 0 || r.rate.part > 0:
		return Resources{MilliGPU: a.MilliGPU}
	case r.rate.cpu > 0:
		return Resources{MilliCPU: a.MilliCPU}
	}
	return Resources{MemoryBytes: a.MemoryBytes}
}

// Space returns amounts of the resource that is short, on the nodes of the refusal's domain that match the gang. The
// gang can use only a part of the free amount: usable.
func (r *Refusal) Space() (free, total, usable Resources) {
	return r.scarce(r.Free), r.scarce(r.Total), r.scarce(min(r.Room*r.unit(), r.Free))
}

// scarce converts a number in the unit of Free and Total to resources.
func (r *Refusal) scarce(n int64) Resources {
	return r.Scarce(Resources{MilliCPU: n, MemoryBytes: n, MilliGPU: n * WholeGPU})
}

// Lack returns the resources that the nearest node lacks for one unit of the gang: what the unit requests, and what the
// node has.
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

// constraintWords are the kinds of constraints in the API.
var constraintWords = [...]string{
	OnExcluded: "excluded", OnNamed: "named", OnApart: "apart", OnMemory: "memory", OnCPU: "cpu", OnLabel: "label",
	OnGPUType: "gpu-type", OnWhole: "whole", OnService: "unavailable", OnLevel: "level", OnKept: "reserved",
	OnOthers: "others", OnSize: "size",
}

// Word returns the kind of a constraint in the API.
func (k ConstraintKind) Word() string { return constraintWords[k] }

// Name returns the name of the constraint's label, GPU type or level.
func (c Constraint) Name() string {
	switch c.Kind {
	case OnLabel:
		return c.Label.words()
	case OnLevel:
		return c.Level
	}
	return c.Text
}

// CountText formats thousandths of a GPU or of a core, for example 16 or 0.5.
func CountText(milli int64) string { return decimal(milli) }

// BytesText formats an amount of memory, for example 512 GiB.
func BytesText(n int64) string { return bytes(n) }
