// Package report draws replays as one HTML page without external files, scripts or fonts. The output depends only
// on the replays.
package report

import (
	"bytes"
	_ "embed"
	"fmt"
	"html/template"
	"strings"
	"sync"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/show"
	"github.com/yi-json/synapse/sim/record"
)

// This file defines the content of the page and its order.

//go:embed page.html
var pageHTML string

var page = sync.OnceValue(func() *template.Template { return template.Must(template.New("page").Parse(pageHTML)) })

// Replays holds the replays that a page shows.
type Replays struct {
	Record  string // name of the record
	Cluster record.Cluster
	Results []*record.Result // at least one
}

// HTML returns the page.
func HTML(r Replays) ([]byte, error) {
	c := contents{Title: "Replay of " + r.Record, GPUs: r.Cluster.Sum()}
	for i, runs := range show.ByPolicy(r.Results) {
		p := policy{Name: runs[0].Policy, Colour: fmt.Sprintf("p%d", i%colours)}
		for _, run := range runs {
			if run.Picture != nil {
				p.pictures = append(p.pictures, run.Picture)
			}
		}
		c.Policies, c.runs = append(c.Policies, p), max(c.runs, len(runs))
	}
	c.Intro = c.intro(r)
	c.Heads, c.Rows = show.ReplayCells(r.Results)
	c.Figures = []figure{c.used(), c.waiting(), c.bySize(), c.byQueue(), c.promised(), c.racks()}
	var b bytes.Buffer
	if err := page().Execute(&b, c); err != nil {
		return nil, fmt.Errorf("drawing the report: %w", err)
	}
	return b.Bytes(), nil
}

// colours is the number of colours on the page.
const colours = 8

// contents holds the data of the template.
type contents struct {
	Title, Intro string
	GPUs         int
	Policies     []policy
	Heads        []string
	Rows         [][]string
	Figures      []figure
	runs         int
}

// policy holds the runs of one policy.
type policy struct {
	Name, Colour string
	pictures     []*record.Picture
}

// figure is one drawing with a caption. If there is no data, the caption says so.
type figure struct {
	Title, Says string
	Drawing     *drawing
}

// intro describes the replayed workload and the cluster.
func (c *contents) intro(r Replays) string {
	first := r.Results[0]
	var b strings.Builder
	fmt.Fprintf(&b, "%d jobs on %s with %d GPUs in %s.", first.Jobs, several(len(r.Cluster.GPUs), "node"), c.GPUs,
		several(len(r.Cluster.Racks), "rack"))
	if first.TooBig > 0 {
		fmt.Fprintf(&b, " Not replayed, because these nodes are too small: %s.", several(first.TooBig, "gang"))
	}
	if first.Unfinished > 0 {
		fmt.Fprintf(&b, " The replay was stopped early: %s had not ended.", several(first.Unfinished, "job"))
	}
	if c.runs > 1 {
		fmt.Fprintf(&b, " The replay has %d runs of each policy. Values are means, with the standard deviation "+
			"below. Thin lines are further runs.", c.runs)
	}
	return b.String()
}

func several(n int, what string) string {
	if n != 1 {
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
