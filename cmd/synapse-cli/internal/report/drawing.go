package report

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// This file places marks on a drawing and labels its axes.

// drawing is one picture. Its unit is about one pixel.
type drawing struct {
	Width, Height int
	Label         string // for screen readers
	Marks         []mark
}

// mark is a line, a text, a dot or a path.
type mark struct {
	Kind, Class, Text, Anchor, D string
	X, Y, X2, Y2, R              string
}

const drawingWidth = 800

func newDrawing(label string, height float64) *drawing {
	return &drawing{Width: drawingWidth, Height: int(math.Ceil(height)), Label: label}
}

func (d *drawing) line(class string, x, y, x2, y2 float64) {
	d.Marks = append(d.Marks, mark{Kind: "line", Class: class, X: short(x), Y: short(y), X2: short(x2), Y2: short(y2)})
}

// text draws a text. anchor is start, middle or end.
func (d *drawing) text(class, anchor string, x, y float64, words string) {
	d.Marks = append(d.Marks, mark{Kind: "text", Class: class, Anchor: anchor, X: short(x), Y: short(y), Text: words})
}

// dot draws a point with a tooltip.
func (d *drawing) dot(class string, x, y, r float64, words string) {
	d.Marks = append(d.Marks, mark{Kind: "dot", Class: class, X: short(x), Y: short(y), R: short(r), Text: words})
}

func (d *drawing) path(class, way string) {
	d.Marks = append(d.Marks, mark{Kind: "path", Class: class, D: way})
}

// point is a point of a line, or a gap if the value is unknown.
type point struct {
	x, y float64
	gap  bool
}

// way returns the path through points.
func way(points []point) string {
	var b strings.Builder
	pen := "M"
	for _, p := range points {
		if p.gap {
			pen = "M"
			continue
		}
		if b.WriteString(pen + short(p.x) + " " + short(p.y)); pen == "M" {
			b.WriteString("h0") // makes a single point visible
		}
		pen = "L"
	}
	return b.String()
}

// short formats a number with at most one decimal.
func short(x float64) string { return strconv.FormatFloat(math.Round(x*10)/10, 'f', -1, 64) }

// tick is a position on an axis with its label.
type tick struct {
	at   float64
	word string
}

// evenTicks returns about three to six round numbers from 0 to most.
func evenTicks(most float64) []tick {
	step := math.Pow(10, math.Floor(math.Log10(most/3)))
	for _, by := range []float64{1, 2, 5, 10} {
		if most/(step*by) <= 6 {
			step *= by
			break
		}
	}
	var all []tick
	for i := 0; float64(i)*step <= most*1.0001; i++ {
		at := float64(i) * step
		all = append(all, tick{at, strconv.FormatFloat(at, 'g', 6, 64)})
	}
	return all
}

// span is a unit of time.
type span struct {
	seconds float64
	one     string
}

var spans = []span{{86400, "days"}, {3600, "hours"}, {60, "minutes"}, {1, "seconds"}}

// unitOf returns the largest unit of which a duration has at least two.
func unitOf(seconds float64) span {
	for _, s := range spans {
		if seconds >= 2*s.seconds {
			return s
		}
	}
	return spans[len(spans)-1]
}

// long formats a duration for a reader.
func long(seconds float64) string {
	if seconds < 1 {
		return "0 s"
	}
	s := unitOf(seconds)
	digits := 0
	if n := seconds / s.seconds; n < 9.95 && s.seconds > 1 {
		digits = 1
	}
	words := map[string]string{"days": "d", "hours": "h", "minutes": "min", "seconds": "s"}
	return fmt.Sprintf("%.*f %s", digits, seconds/s.seconds, words[s.one])
}

// scale converts a value to a coordinate.
type scale struct{ from, to, most float64 }

func (s scale) at(x float64) float64 { return s.from + (s.to-s.from)*min(1, max(0, x/s.most)) }

// waits converts durations of very different lengths to coordinates: linear up to about ten seconds, and
// logarithmic above.
type waits struct{ scale }

func newWaits(from, to, most float64) waits { return waits{scale{from, to, bend(max(most, 60))}} }

func bend(seconds float64) float64 { return math.Log10(1 + max(0, seconds)/10) }

func (w waits) at(seconds float64) float64 { return w.scale.at(bend(seconds)) }

// waitTicks lists the labelled durations on an axis of waits.
var waitTicks = []tick{
	{0, "0"}, {60, "1 min"}, {600, "10 min"}, {3600, "1 h"}, {6 * 3600, "6 h"}, {86400, "1 d"}, {4 * 86400, "4 d"},
	{20 * 86400, "20 d"},
	{100 * 86400, "100 d"}, {500 * 86400, "500 d"},
}

func (w waits) ticks() []tick {
	return slices.DeleteFunc(slices.Clone(waitTicks), func(t tick) bool { return bend(t.at) > w.most*1.0001 })
}
