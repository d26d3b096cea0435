package show

import (
	"fmt"

	"github.com/yi-json/synapse/messages"
)

// This file owns how it looks what a job was told first of when it starts, and how right that was: how much later or
// earlier it was committed. All of it is in times of day that leaders noted, for people.

// expected is when a job was first expected to start.
func expected(t *messages.Told) int64 { return t.GetToldUnixMs() + t.GetExpectedMs() }

// latest is when it was to start at the latest; 0: no such time could be given.
func latest(t *messages.Told) int64 {
	if t.GetBoundMs() == 0 {
		return 0
	}
	return t.GetToldUnixMs() + t.GetBoundMs()
}

// lateMs is by how much a job was committed later than it was first told; below 0: earlier.
func lateMs(t *messages.Told, committed int64) int64 { return committed - expected(t) }

// foretold is what a job was told first, and how right it was where it has been committed; empty: it was told nothing.
func foretold(t *messages.Told, committed int64) string {
	if t == nil {
		return ""
	}
	text := "~" + stamp(expected(t))
	if by := latest(t); by != 0 {
		text += ", no later than " + stamp(by)
	}
	text += " (made " + stamp(t.GetToldUnixMs()) + ")"
	if committed == 0 {
		return text
	}
	switch late := lateMs(t, committed); {
	case late >= 1000:
		text += fmt.Sprintf("; committed %s later", messages.Span(late))
	case late <= -1000:
		text += fmt.Sprintf("; committed %s earlier", messages.Span(-late))
	default:
		text += "; committed then"
	}
	if by := latest(t); by != 0 && committed-by >= 1000 {
		text += fmt.Sprintf(", %s after the latest", messages.Span(committed-by))
	}
	return text
}

// toldObj is what programs read of that.
type toldObj struct {
	At       string   `json:"at"`                    // when it was told
	Expected string   `json:"expected"`              // to start then
	Latest   string   `json:"latest,omitempty"`      // no such time could be given
	Late     *float64 `json:"lateSeconds,omitempty"` // it was committed so much later; below 0: earlier; none: it waits
}

func toldObject(t *messages.Told, committed int64) *toldObj {
	if t == nil {
		return nil
	}
	o := &toldObj{At: stamp(t.GetToldUnixMs()), Expected: stamp(expected(t)), Latest: stamp(latest(t))}
	if committed != 0 {
		late := seconds(lateMs(t, committed))
		o.Late = &late
	}
	return o
}

// firstTold is the first attempt of a job that is over before which it was told something; nil: there is none.
func (j past) firstTold() *messages.PastAttempt {
	for _, a := range j.GetAttempts() {
		if a.GetTold() != nil {
			return a
		}
	}
	return nil
}

// late is by how much that was committed later than was told first.
func (j past) late() string {
	a := j.firstTold()
	if a == nil {
		return "-"
	}
	late := lateMs(a.GetTold(), a.GetCommittedUnixMs())
	if late < 0 {
		return "-" + messages.Span(-late)
	}
	return "+" + messages.Span(late)
}

// toldCells are the same for a row of CSV.
func (j past) toldCells() []string {
	a := j.firstTold()
	if a == nil {
		return []string{"", "", "", ""}
	}
	t := a.GetTold()
	return []string{stamp(t.GetToldUnixMs()), stamp(expected(t)), stamp(latest(t)),
		fmt.Sprintf("%.3f", seconds(lateMs(t, a.GetCommittedUnixMs())))}
}
