// Package metrics says what a process knows in Prometheus' words: the families of series, and those of them that every
// process has. What a scheduler that leads says beside them is in leading, what a machine's agent does in machine. It
// decides nothing, and measures nothing itself: figures come from the actors' host and from who owns them.
package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// This file owns what a family is. The names, kinds and labels of all families are fixed when a program is built:
// nothing that a user says becomes a name, and each label is bounded.

// The kinds of families.
const (
	Gauge     = "gauge"
	Counter   = "counter"
	Histogram = "histogram"
)

// Family has all series of one name.
type Family struct {
	Name, Kind, Help string
	Labels           []string
	desc             *prometheus.Desc
}

// New makes a family.
func New(kind, name, help string, labels ...string) *Family {
	return &Family{Name: name, Kind: kind, Help: help, Labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}

// Page is one scrape, while it is written.
type Page struct{ to chan<- prometheus.Metric }

// Put writes one series of a gauge or a counter.
func (p Page) Put(f *Family, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if f.Kind == Counter {
		kind = prometheus.CounterValue
	}
	for i := range labels { // the library panics on what is no UTF-8
		labels[i] = strings.ToValidUTF8(labels[i], "?")
	}
	p.to <- prometheus.MustNewConstMetric(f.desc, kind, value, labels...)
}

// Source writes the series of some families.
type Source interface {
	Families() []*Family
	Write(p Page)
}

// collector is a Source as the library knows it.
type collector struct{ Source }

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.Families() {
		to <- f.desc
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) { c.Write(Page{to}) }

// Share says what one name has of a sum.
type Share struct {
	Name  string
	Value float64
}

// Rest names what is left beside the greatest.
const Rest = "other"

// Greatest are the greatest n, in the order of names, and all others as one. Whoever has the rest's own name is of it.
func Greatest(all []Share, n int) []Share {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b Share) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Name, b.Name))
	})
	var named []Share
	rest, others := Share{Name: Rest}, false
	for _, s := range all {
		if s.Name != Rest && len(named) < n {
			named = append(named, s)
			continue
		}
		rest.Value, others = rest.Value+s.Value, true
	}
	slices.SortFunc(named, func(a, b Share) int { return cmp.Compare(a.Name, b.Name) })
	if others {
		named = append(named, rest)
	}
	return named
}
