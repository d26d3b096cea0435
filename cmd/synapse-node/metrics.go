package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/server/metrics/machine"
)

// This file exports the node's metrics through a port or a file for another exporter, if either is configured.

// fileEvery is the interval for writing the file.
const fileEvery = 15 * time.Second

// checkMetrics refuses an invalid address.
func (o *options) checkMetrics() error {
	if o.metricsAt == "" {
		return nil
	}
	if _, port, err := net.SplitHostPort(o.metricsAt); err != nil || port == "" {
		return fmt.Errorf("--metrics %q: must be host:port, such as 127.0.0.1:9101", o.metricsAt)
	}
	return nil
}

// showFigures starts to export metrics, if configured. Call end to stop.
func (o *options) showFigures(h *host.Host, log actors.Log) (end func(), err error) {
	if o.metricsAt == "" && o.metricsFile == "" {
		return func() {}, nil
	}
	from := metrics.Registry(metrics.Process{Host: h, Version: daemon.Version()}, machine.Source{Host: h})
	ctx, cancel := context.WithCancel(context.Background())
	end = cancel
	if o.metricsAt != "" {
		at, err := net.Listen("tcp", o.metricsAt)
		if err != nil {
			cancel()
			return nil, fmt.Errorf("--metrics %s: %w", o.metricsAt, err)
		}
		log.Info("Metrics are at http://%s/metrics, without authentication", at.Addr())
		pages := http.NewServeMux()
		pages.Handle("GET /metrics", metrics.Handler(from))
		server := &http.Server{
			Handler: pages, ReadTimeout: 10 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute,
			MaxHeaderBytes: 16 << 10,
		}
		go func() { _ = server.Serve(at) }() // runs until it is closed
		end = func() { cancel(); _ = server.Close() }
	}
	if o.metricsFile != "" {
		go o.writeFigures(ctx, from, log)
	}
	return end, nil
}

// writeFigures writes the metrics file at intervals. It logs a failure once, until writing succeeds again.
func (o *options) writeFigures(ctx context.Context, from prometheus.Gatherer, log actors.Log) {
	said := false
	for {
		err := writeFigures(o.metricsFile, from)
		if err != nil && !said {
			log.Warn("The metrics file cannot be written: %v", err)
		}
		said = err != nil
		select {
		case <-time.After(fileEvery):
		case <-ctx.Done():
			return
		}
	}
}

// writeFigures replaces the metrics file atomically.
func writeFigures(path string, from prometheus.Gatherer) (err error) {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
	if err != nil {
		return err
	}
	err = errors.Join(metrics.Text(from, file), file.Close())
	if err != nil {
		return errors.Join(err, os.Remove(path+".new"))
	}
	return os.Rename(path+".new", path)
}
