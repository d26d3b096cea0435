package main

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/cmd/synapse-cli/internal/report"
	"github.com/yi-json/synapse/sim/record"
)

// This file writes the file of --report. The file is opened before the replay, which may take minutes, so that a
// wrong path is reported early. The old content stays until the new page is complete.

// reportFile is the file of a report; nil: no report.
type reportFile struct {
	*os.File
	fresh bool // created by this run, and still empty
}

// openReport refuses a file that cannot be written, or that is an input of the replay.
func openReport(r *replayFlags) (*reportFile, error) {
	if r.report == "" {
		return nil, nil
	}
	was, missing := os.Stat(r.report)
	for _, name := range []string{r.record, besideName(r.record), r.limits, r.cluster} {
		if read, err := os.Stat(name); err == nil && missing == nil && os.SameFile(read, was) {
			return nil, exit.Usage("--report: %s is the input file", r.report)
		}
	}
	file, err := os.OpenFile(r.report, os.O_CREATE|os.O_WRONLY, 0o644)
	var path *os.PathError
	if errors.As(err, &path) {
		return nil, exit.Usage("--report: %s: %s", path.Path, path.Err)
	}
	return &reportFile{file, missing != nil}, nil
}

// write replaces the old content by the page.
func (f *reportFile) write(r *replayFlags, results []*record.Result) error {
	if f == nil {
		return nil
	}
	name := filepath.Base(r.record)
	switch {
	case r.synthetic:
		name = "a workload that was drawn" + map[bool]string{true: ": " + r.record}[r.record != ""]
	case r.record == "-":
		name = "standard input"
	}
	page, err := report.HTML(report.Replays{Record: name, Cluster: r.order.Cluster, Results: results})
	if err != nil {
		return &exit.Failure{Code: exit.Failed, Text: err.Error()}
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		if err := f.Truncate(0); err != nil {
			return &exit.Failure{Code: exit.Failed, Text: err.Error()}
		}
	}
	_, err = f.Write(page)
	if err := cmp.Or(err, f.Close()); err != nil {
		return &exit.Failure{Code: exit.Failed, Text: err.Error()}
	}
	f.fresh = false
	return nil
}

// close removes the file if it is new and empty.
func (f *reportFile) close() {
	if f == nil {
		return
	}
	_ = f.Close()
	if f.fresh {
		_ = os.Remove(f.Name())
	}
}
