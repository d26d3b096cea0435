package messages

// This file defines which attempts lose their work.

// LosesWork reports whether an attempt that ends with this cause loses its work. It does not if the attempt succeeded,
// if its user cancelled it, or if it reached its time limit.
func (x Cause) LosesWork() bool {
	switch x {
	case Cause_CAUSE_SUCCEEDED, Cause_CAUSE_CANCELLED, Cause_CAUSE_TIME_LIMIT:
		return false
	}
	return true
}
