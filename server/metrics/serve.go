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

// This file owns how figures are handed out. However many ask, they are counted once a second at most: a count of a big
// cluster takes its readers' actor some milliseconds.

// freshFor is for how long the same figures are handed out.
const freshFor = time.Second

// Registry registers some sources, and what Go and the process say of themselves.
func Registry(sources ...Source) *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, s := range sources {
		r.MustRegister(collector{s})
	}
	return r
}

// Handler answers a scrape.
func Handler(from prometheus.Gatherer) http.Handler {
	return promhttp.HandlerFor(&kept{from: from, now: time.Now}, promhttp.HandlerOpts{MaxRequestsInFlight: 8})
}

// Text writes the figures as a scrape would have them.
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
