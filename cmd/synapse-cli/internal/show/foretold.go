package show

import (
	"fmt"

	"github.com/yi-json/synapse/messages"
)

// This file prints the first start estimate of a job and its error: the difference from the actual start. All times
// are times of day that leaders recorded.

// expected returns the first estimate of the start of a job.
func expected(t *messages.Told) int64 { return t.GetToldUnixMs() + t.GetExpectedMs() }

// latest returns the first latest start, or 0 if none was known.
func latest(t *messages.Told) int64 {
	if t.GetBoundMs() == 0 {
		return 0
	}
	return t.GetToldUnixMs() + t.GetBoundMs()
}

// lateMs returns how much later than estimated the job started. A negative value means earlier.
func lateMs(t *messages.Told, committed int64) int64 { return committed - expected(t) }

// foretold formats the first estimate, and its error if the job has started. It returns "" without an estimate.
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

// toldObj holds an estimate for programs.
type toldObj struct {
	At       string   `json:"at"`                    // when it was published
	Expected string   `json:"expected"`              // estimated start
	Latest   string   `json:"latest,omitempty"`      // missing: unknown
	Late     *float64 `json:"lateSeconds,omitempty"` // how much later the job started; negative: earlier; nil: the job waits
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

// firstTold returns the first attempt of a finished job that had an estimate, or nil.
func (j past) firstTold() *messages.PastAttempt {
	for _, a := range j.GetAttempts() {
		if a.GetTold() != nil {
			return a
		}
	}
	return nil
}

// late formats how much later than estimated this attempt started.
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

// toldCells returns the same values for a row of CSV.
func (j past) toldCells() []string {
	a := j.firstTold()
	if a == nil {
		return []string{"", "", "", ""}
	}
	t := a.GetTold()
	return []string{stamp(t.GetToldUnixMs()), stamp(expected(t)), stamp(latest(t)),
		fmt.Sprintf("%.3f", seconds(lateMs(t, a.GetCommittedUnixMs())))}
}
