package metrics

import (
	"bytes"
	"io"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/common/expfmt"
)

// This file serves metrics. They are collected at most once per second, because the census of a large cluster takes
// the Mirror some milliseconds.

// freshFor is how long the same metrics are served.
const freshFor = time.Second

// Registry registers sources and the metrics of the Go runtime and the process.
func Registry(sources ...Source) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, s := range sources {
		r.MustRegister(collector{s})
	}
	return r
}

// Handler returns a handler that serves a scrape.
func Handler(from prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(&kept{from: from, now: time.Now}, promhttp.HandlerOpts{MaxRequestsInFlight: 8})
}

// Text writes the metrics in the text format of a scrape.
func Text(from prometheus.Gatherer, to io.Writer) error {
	families, err := from.Gather()
	if err != nil {
		return err
	}
	var text bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&text, f); err != nil {
			return err
		}
	}
	_, err = to.Write(text.Bytes())
	return err
}
