package gateway

import "github.com/yi-json/synapse/messages"

// This file passes on the times of an output.

// timesOf returns the times of the data from an offset to another, and forgets earlier ones. The offsets of the data
// only grow.
func (o *output) timesOf(from, to int64) []*messages.LogTime {
	first, end := 0, 0
	for end < len(o.times) && o.times[end].GetOffset() < to {
		if o.times[end].GetOffset() <= from {
			first = end // the last one before the data
		}
		end++
	}
	if end == 0 {
		return nil
	}
	found := o.times[first:end:end]
	o.times = o.times[end-1:] // the last one may also be the time of the data that follows
	return found
}

// noteTimes stores the times of a page. A page repeats the last time of the page before.
func (o *output) noteTimes(times []*messages.LogTime) {
	for _, t := range times {
		if n := len(o.times); n == 0 || t.GetOffset() > o.times[n-1].GetOffset() {
			o.times = append(o.times, t)
		}
	}
}
