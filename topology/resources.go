package topology

// This file owns amounts. A GPU amount is in thousandths of a device, so that
// a share of one and eight whole ones are the same kind of number.

// WholeGPU is one device in milli-GPUs.
const WholeGPU = 1000

// Resources is an amount of what a machine has. It may be a capacity, a demand
// or a difference; only a difference may be negative.
type Resources struct {
	MilliCPU    int64
	MemoryBytes int64
	MilliGPU    int64
}

// Plus adds.
func (r Resources) Plus(o Resources) Resources {
	return Resources{r.MilliCPU + o.MilliCPU, r.MemoryBytes + o.MemoryBytes, r.MilliGPU + o.MilliGPU}
}

// Minus subtracts.
func (r Resources) Minus(o Resources) Resources {
	return Resources{r.MilliCPU - o.MilliCPU, r.MemoryBytes - o.MemoryBytes, r.MilliGPU - o.MilliGPU}
}

// upTo is r with no amount larger than in o.
func (r Resources) upTo(o Resources) Resources {
	return Resources{min(r.MilliCPU, o.MilliCPU), min(r.MemoryBytes, o.MemoryBytes), min(r.MilliGPU, o.MilliGPU)}
}

// besides returns r minus an amount, nothing below zero.
func (r Resources) besides(o Resources) Resources {
	r = r.Minus(o)
	return Resources{max(r.MilliCPU, 0), max(r.MemoryBytes, 0), max(r.MilliGPU, 0)}
}

// times scales.
func (r Resources) times(n int64) Resources {
	return Resources{r.MilliCPU * n, r.MemoryBytes * n, r.MilliGPU * n}
}

// Within reports whether r is covered by o in every dimension.
func (r Resources) Within(o Resources) bool {
	return r.MilliCPU <= o.MilliCPU && r.MemoryBytes <= o.MemoryBytes && r.MilliGPU <= o.MilliGPU
}

// IsZero reports whether every amount is zero.
func (r Resources) IsZero() bool { return r == Resources{} }

// IsNegative reports whether any dimension is below zero: the books are wrong.
func (r Resources) IsNegative() bool { return r.MilliCPU < 0 || r.MemoryBytes < 0 || r.MilliGPU < 0 }

// GPU is one device of a machine.
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

// Label is a property of a machine that a job may select by.
type Label struct {
	Key   string
	Value string
}

// String returns the label as people write it. Networks and secrets have keys of their own, which no job file has.
func (l Label) String() string {
	switch l.Key {
	case NetworkKey:
		return "network=" + l.Value
	case SecretKey:
		return "secrets as " + l.Value
	}
	return l.Key + "=" + l.Value
}

// words returns the label with the word that says what it is.
func (l Label) words() string {
	if l.Key == NetworkKey || l.Key == SecretKey {
		return l.String()
	}
	return "label " + l.String()
}
