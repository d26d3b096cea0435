package report

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/yi-json/synapse/sim/record"
)

// This file draws the waiting times of jobs: by size, by queue, and compared with their first estimates.

const (
	rowHeight   = 20
	groupGap    = 12
	rowsLeft    = 200
	rowsRight   = 90
	queuesDrawn = 12
)

// marks explains how to read a row of waiting times.
const marks = "Each line has a thick part from the median to the 90th percentile, and a thin part up to the 99th " +
	"percentile. The dot is the mean, and the number at the end of the row is its value. The vertical stroke is " +
	"the longest wait."

func (c *contents) bySize() figure {
	return c.rows("Waiting time by job size", marks,
		c.groups(func(p *record.Picture) []record.Spread { return p.Sizes }), func(name string) string {
			if name == "1" {
				return "1 GPU"
			}
			return name + " GPUs"
		})
}

func (c *contents) byQueue() figure {
	title := "Waiting time by queue"
	all := c.groups(func(p *record.Picture) []record.Spread { return p.Queues })
	says := marks
	switch {
	case len(all) == 1:
		return figure{Title: title, Says: fmt.Sprintf("All ended jobs belong to one queue (%s). Its waiting times "+
			"are the same as in the drawing above.", queueName(all[0].name))}
	case len(all) > queuesDrawn:
		slices.SortStableFunc(all, func(a, b group) int { return cmp.Compare(b.jobs, a.jobs) })
		says += fmt.Sprintf(" The drawing shows the %d queues with the most jobs, of %d "+
			"queues.", queuesDrawn, len(all))
		all = all[:queuesDrawn]
	}
	return c.rows(title, says, all, queueName)
}

func queueName(name string) string { return cmp.Or(name, "no queue") }

// group holds the waiting times of one kind of jobs under each policy.
type group struct {
	name string
	jobs int
	rows []row
}

// row holds the waiting times under one policy, as means of its runs.
type row struct {
	policy policy
	runs   int // number of runs with such jobs
	record.Spread
}

// groups collects the waiting times by name under all policies, in the order of first appearance.
func (c *contents) groups(of func(*record.Picture) []record.Spread) []group {
	var all []group
	for _, p := range c.Policies {
		for _, picture := range p.pictures {
			for _, s := range of(picture) {
				i := slices.IndexFunc(all, func(g group) bool { return g.name == s.Name })
				if i < 0 {
					i, all = len(all), append(all, group{name: s.Name})
				}
				all[i].add(p, s)
			}
		}
	}
	for i := range all {
		for j := range all[i].rows {
			all[i].jobs = max(all[i].jobs, all[i].rows[j].mean())
		}
	}
	return all
}

func (g *group) add(p policy, s record.Spread) {
	if n := len(g.rows); n == 0 || g.rows[n-1].policy.Name != p.Name {
		g.rows = append(g.rows, row{policy: p})
	}
	r := &g.rows[len(g.rows)-1]
	r.runs++
	r.Jobs += s.Jobs
	r.Avg, r.P50, r.P90 = r.Avg+s.Avg, r.P50+s.P50, r.P90+s.P90
	r.P99, r.Max = r.P99+s.P99, r.Max+s.Max
}

// mean converts sums of several runs into means, and returns the number of jobs per run.
func (r *row) mean() int {
	n := float64(r.runs)
	r.Avg, r.P50, r.P90, r.P99, r.Max = r.Avg/n, r.P50/n, r.P90/n, r.P99/n, r.Max/n
	return r.Jobs / r.runs
}

// rows draws the groups below each other, with a row per policy.
func (c *contents) rows(title, says string, all []group, name func(string) string) figure {
	if len(all) == 0 {
		return figure{Title: title, Says: "No job ended, so no waiting times are known."}
	}
	most, height := 0.0, 0.0
	for _, g := range all {
		height += rowHeight*float64(len(g.rows)+1) + groupGap
		for _, r := range g.rows {
			most = max(most, r.Max)
		}
	}
	d := newDrawing(title+". "+says, height+52)
	x := newWaits(rowsLeft, drawingWidth-rowsRight, most)
	for _, t := range x.ticks() {
		d.line("grid", x.at(t.at), 8, x.at(t.at), height+8)
		d.text("soft", "middle", x.at(t.at), height+24, t.word)
	}
	d.text("soft", "middle", (x.from+x.to)/2, height+44, "waiting time (logarithmic axis)")
	y := 10.0
	for _, g := range all {
		y += rowHeight
		d.text("name", "start", 0, y-4, fmt.Sprintf("%s · %s", cut(name(g.name)), several(g.jobs, "job")))
		for _, r := range g.rows {
			y += rowHeight
			d.row(r, x, y-rowHeight/2)
		}
		y += groupGap
	}
	return figure{Title: title, Says: says, Drawing: d}
}

func (d *drawing) row(r row, x waits, y float64) {
	colour := r.policy.Colour
	d.text("fill "+colour, "end", rowsLeft-10, y+4, r.policy.Name)
	d.line("tail "+colour, x.at(r.P50), y, x.at(r.P99), y)
	d.line("bar "+colour, x.at(r.P50), y, x.at(r.P90), y)
	d.line("tail "+colour, x.at(r.Max), y-5, x.at(r.Max), y+5)
	d.dot("fill mean "+colour, x.at(r.Avg), y, 5,
		fmt.Sprintf("mean %s, median %s, 90th percentile %s, 99th %s, longest %s",
			long(r.Avg), long(r.P50), long(r.P90), long(r.P99), long(r.Max)))
	d.text("soft", "start", drawingWidth-rowsRight+12, y+4, long(r.Avg))
}

// cut shortens a name to the available width.
func cut(name string) string {
	const room = 60
	if letters := []rune(name); len(letters) > room {
		return string(letters[:room-1]) + "…"
	}
	return name
}

// promisesDrawn limits the drawn jobs per policy. They are chosen at equal distances.
const promisesDrawn = 500

// promised draws the first estimates of starts against the actual starts.
func (c *contents) promised() figure {
	const title = "Estimated and actual start times"
	most, points := 60.0, map[string][]record.Told{}
	for _, p := range c.Policies {
		var all []record.Told
		for _, picture := range p.pictures {
			all = append(all, picture.Promises...)
		}
		for i := range min(len(all), promisesDrawn) {
			one := all[i*len(all)/min(len(all), promisesDrawn)]
			points[p.Name] = append(points[p.Name], one)
			most = max(most, one.At-one.Told, one.Started-one.Told)
		}
	}
	if len(points) == 0 {
		return figure{Title: title, Says: "No policy of this replay estimates start times."}
	}
	says := "Each dot is a job with a start estimate. The horizontal axis is the estimated wait, and the vertical " +
		"axis is the actual wait, both from the time of the estimate. Jobs above the dashed line waited longer " +
		"than estimated."
	const height, side = 420, 470
	d := newDrawing(says, height)
	x, y := newWaits(left+30, left+30+side, most), newWaits(height-50, 16, most)
	for _, t := range x.ticks() {
		d.line("grid", x.at(t.at), y.from, x.at(t.at), y.to)
		d.line("grid", x.from, y.at(t.at), x.to, y.at(t.at))
		d.text("soft", "middle", x.at(t.at), y.from+18, t.word)
		d.text("soft", "end", x.from-8, y.at(t.at)+4, t.word)
	}
	d.line("mark", x.from, y.from, x.to, y.to)
	d.text("soft", "middle", (x.from+x.to)/2, height-12, "estimated wait")
	d.text("soft", "start", 0, 12, "actual wait")
	for i, p := range c.Policies {
		named := fmt.Sprintf("%s · %d dots", p.Name, len(points[p.Name]))
		d.text("name fill "+p.Colour, "start", x.to+24, 30+float64(i)*20, named)
		for _, one := range points[p.Name] {
			d.dot("fill dot "+p.Colour, x.at(one.At-one.Told), y.at(one.Started-one.Told), 3, "")
		}
	}
	return figure{Title: title, Says: says, Drawing: d}
}
