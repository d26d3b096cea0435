// Package metrics exports the metrics of a process to Prometheus: the metric families, and those that every process
// has. Package leading adds the metrics of a leading scheduler, and package machine those of a node agent. The
// package measures nothing itself: values come from the actors' host and from the owners of the data.
package metrics

import (
	"cmp"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// This file defines a metric family. The names, types and labels of all families are fixed at build time. No text
// of a user becomes a name, and the number of label values is limited.

// The types of families.
const (
	Gauge     = "gauge"
	Counter   = "counter"
	Histogram = "histogram"
)

// Family holds all series with one name.
type Family struct {
	Name, Kind, Help string
	Labels           []string
	desc             *prometheus.Desc
}

// New creates a family.
func New(kind, name, help string, labels ...string) *Family {
	return &Family{Name: name, Kind: kind, Help: help, Labels: labels, desc: prometheus.NewDesc(name, help, labels, nil)}
}

// Page is one scrape in progress.
type Page struct{ to chan<- prometheus.Metric }

// Put writes one series of a gauge or a counter.
func (p Page) Put(f *Family, value float64, labels ...string) {
	kind := prometheus.GaugeValue
	if f.Kind == Counter {
		kind = prometheus.CounterValue
	}
	for i := range labels { // the library panics on invalid UTF-8
		labels[i] = strings.ToValidUTF8(labels[i], "?")
	}
	p.to <- prometheus.MustNewConstMetric(f.desc, kind, value, labels...)
}

// Source writes the series of some families.
type Source interface {
	Families() []*Family
	Write(p Page)
}

// collector implements the library's interface with a Source.
type collector struct{ Source }

func (c collector) Describe(to chan<- *prometheus.Desc) {
	for _, f := range c.Families() {
		to <- f.desc
	}
}

func (c collector) Collect(to chan<- prometheus.Metric) { c.Write(Page{to}) }

// Share holds the part that one name has in a sum.
type Share struct {
	Name  string
	Value float64
}

// Rest is the name of the sum of all shares that are not among the largest.
const Rest = "other"

// Greatest returns the n largest shares, sorted by name, and the sum of all others as Rest. A share with the name
// Rest counts as one of the others.
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
