package report

import (
	"fmt"

	"github.com/yi-json/synapse/sim/record"
)

// This file draws values over the time of a run: one strip per policy, all with the same axes.

// strips is a drawing over time.
type strips struct {
	title, says string
	unit        string // unit of the value, at its axis
	of          func(record.Step) (figure float64, ok bool)
	most        float64 // end of the axis; 0: the maximum of the data
	percent     bool
}

const (
	left, right = 64, 16
	stripHeight = 108
	stripGap    = 34
	runsDrawn   = 10 // of one policy
)

func (c *contents) used() figure {
	return c.strips(strips{title: "GPUs in use", most: 1, percent: true, unit: "share of the GPUs",
		says: fmt.Sprintf("Share of the %d GPUs that ran a job at each time. The mean until the last submit is %s. "+
			"The dashed line marks the last submit.",
			c.GPUs, c.each(meanUsed)),
		of: func(s record.Step) (float64, bool) { return s.Used, true }})
}

func (c *contents) waiting() figure {
	return c.strips(strips{title: "Waiting jobs", unit: "waiting jobs",
		says: fmt.Sprintf("Number of submitted jobs that had not started at each time. The maximum is %s. The "+
			"dashed line marks the last submit.",
			c.each(mostWaiting)),
		of: func(s record.Step) (float64, bool) { return s.Waiting, true }})
}

func (c *contents) racks() figure {
	title := "Gangs in the smallest possible number of racks"
	if c.over(func(s record.Step) float64 { return s.Gangs }) == 0 {
		return figure{Title: title, Says: "No gang was larger than a node."}
	}
	return c.strips(strips{title: title, most: 1, percent: true, unit: "share of the gangs",
		says: "Share of the running gangs larger than a node that used the smallest possible number of racks. " +
			"Times without such gangs have no line.",
		of: func(s record.Step) (float64, bool) { return s.Near / max(s.Gangs, 1e-9), s.Gangs > 1e-6 }})
}

// each formats a value of each policy, from its first run.
func (c *contents) each(of func(*record.Picture) string) string {
	words := ""
	for _, p := range c.Policies {
		if len(p.pictures) == 0 {
			continue
		}
		if words != "" {
			words += ", "
		}
		words += of(p.pictures[0])
		if len(c.Policies) > 1 {
			words += " under " + p.Name
		}
	}
	return words
}

func meanUsed(p *record.Picture) string {
	sum, n := 0.0, 0.0
	for i, s := range p.Steps {
		if float64(i)*p.Step < p.Submits {
			sum, n = sum+s.Used, n+1
		}
	}
	return fmt.Sprintf("%.0f%%", 100*sum/max(n, 1))
}

func mostWaiting(p *record.Picture) string {
	most := 0.0
	for _, s := range p.Steps {
		most = max(most, s.Waiting)
	}
	return fmt.Sprintf("%.0f", most)
}

// over returns the maximum of a value over all runs.
func (c *contents) over(of func(record.Step) float64) float64 {
	most := 0.0
	for _, p := range c.Policies {
		for _, picture := range p.pictures {
			for _, s := range picture.Steps {
				most = max(most, of(s))
			}
		}
	}
	return most
}

// strips draws one strip below the other.
func (c *contents) strips(s strips) figure {
	most, ran := s.most, 1.0
	if most == 0 {
		most = max(1, c.over(func(step record.Step) float64 { x, _ := s.of(step); return x }))
	}
	for _, p := range c.Policies {
		for _, picture := range p.pictures {
			ran = max(ran, float64(len(picture.Steps))*picture.Step)
		}
	}
	d := newDrawing(s.says, float64(len(c.Policies)*(stripHeight+stripGap)+30))
	x := scale{left, drawingWidth - right, ran}
	for i, p := range c.Policies {
		top := float64(i*(stripHeight+stripGap)) + 22
		y := scale{top + stripHeight, top, most}
		d.text("name fill "+p.Colour, "start", left, top-7, p.Name)
		d.text("soft", "end", drawingWidth-right, top-7, s.unit)
		for _, t := range s.ticks(most) {
			d.line("grid", left, y.at(t.at), drawingWidth-right, y.at(t.at))
			d.text("soft", "end", left-8, y.at(t.at)+4, t.word)
		}
		for run := min(len(p.pictures), runsDrawn) - 1; run >= 0; run-- {
			s.draw(d, p, run, x, y)
		}
	}
	foot := float64(len(c.Policies) * (stripHeight + stripGap))
	d.timeAxis(x, foot)
	return figure{Title: s.title, Says: s.says, Drawing: d}
}

func (s strips) ticks(most float64) []tick {
	if s.percent {
		return []tick{{0, "0%"}, {0.5, "50%"}, {1, "100%"}}
	}
	return evenTicks(most)
}

// draw draws one run. The first run is on top of the others.
func (s strips) draw(d *drawing, p policy, run int, x, y scale) {
	picture := p.pictures[run]
	points := make([]point, 0, len(picture.Steps))
	for i, step := range picture.Steps {
		value, ok := s.of(step)
		points = append(points, point{x.at((float64(i) + 0.5) * picture.Step), y.at(value), !ok})
	}
	if run > 0 {
		d.path("thin "+p.Colour, way(points))
		return
	}
	d.line("mark", x.at(picture.Submits), y.from, x.at(picture.Submits), y.to)
	d.path("line "+p.Colour, way(points))
}

// timeAxis labels the time since the first submit below a drawing.
func (d *drawing) timeAxis(x scale, foot float64) {
	unit := unitOf(x.most)
	for _, t := range evenTicks(x.most / unit.seconds) {
		d.text("soft", "middle", x.at(t.at*unit.seconds), foot+4, t.word)
	}
	d.text("soft", "middle", (x.from+x.to)/2, foot+22, unit.one+" since the first submit")
}
