package topology

// This file has the amounts of resources. A GPU amount is in thousandths of a device, so that shares and whole devices
// use the same unit.

// WholeGPU is one device in milli-GPUs.
const WholeGPU = 1000

// Resources is an amount of resources: a capacity, a demand or a difference. Only a difference may be negative.
type Resources struct {
	MilliCPU    int64
	MemoryBytes int64
	MilliGPU    int64
}

// Plus returns r + o.
func (r Resources) Plus(o Resources) Resources {
	return Resources{r.MilliCPU + o.MilliCPU, r.MemoryBytes + o.MemoryBytes, r.MilliGPU + o.MilliGPU}
}

// Minus returns r - o.
func (r Resources) Minus(o Resources) Resources {
	return Resources{r.MilliCPU - o.MilliCPU, r.MemoryBytes - o.MemoryBytes, r.MilliGPU - o.MilliGPU}
}

// upTo returns the smaller of r and o for each resource.
func (r Resources) upTo(o Resources) Resources {
	return Resources{min(r.MilliCPU, o.MilliCPU), min(r.MemoryBytes, o.MemoryBytes), min(r.MilliGPU, o.MilliGPU)}
}

// besides returns r minus an amount, nothing below zero.
func (r Resources) besides(o Resources) Resources {
	r = r.Minus(o)
	return Resources{max(r.MilliCPU, 0), max(r.MemoryBytes, 0), max(r.MilliGPU, 0)}
}

// times returns r times n.
func (r Resources) times(n int64) Resources {
	return Resources{r.MilliCPU * n, r.MemoryBytes * n, r.MilliGPU * n}
}

// Within reports whether r is at most o for every resource.
func (r Resources) Within(o Resources) bool {
	return r.MilliCPU <= o.MilliCPU && r.MemoryBytes <= o.MemoryBytes && r.MilliGPU <= o.MilliGPU
}

// IsZero reports whether every amount is zero.
func (r Resources) IsZero() bool { return r == Resources{} }

// IsNegative reports whether any amount is negative, which is an error in an absolute amount.
func (r Resources) IsNegative() bool { return r.MilliCPU < 0 || r.MemoryBytes < 0 || r.MilliGPU < 0 }

// GPU is one device of a node.
type GPU struct {
	ID          GPUID
	Type        string
	MemoryBytes int64
}

// Share is an amount of one device.
type Share struct {
	GPU   GPUID
	Milli int64
}

// Label is a property of a node that a job may select by.
type Label struct {
	Key   string
	Value string
}

// String returns the label in the notation of users. Networks and secrets have special keys, which job files cannot
// contain.
func (l Label) String() string {
	switch l.Key {
	case NetworkKey:
		return "network=" + l.Value
	case SecretKey:
		return "secrets as " + l.Value
	}
	return l.Key + "=" + l.Value
}

// words returns the label with a word for its kind.
func (l Label) words() string {
	if l.Key == NetworkKey || l.Key == SecretKey {
		return l.String()
	}
	return "label " + l.String()
}
