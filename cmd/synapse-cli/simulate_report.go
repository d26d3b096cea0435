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

// This file owns the file that --report names. It is opened before anything is replayed: a replay may take minutes, and
// a mistyped folder should be reported before that. The old content stays until there is a page to replace it.

// reportFile is where a report is written; nil: none is wanted.
type reportFile struct {
	*os.File
	fresh bool // it was made here, and has nothing in it yet
}

// openReport refuses a file that cannot be written, or that the replay reads.
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

// write writes the page in place of the old content.
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

// close removes the file if nothing was written to it.
func (f *reportFile) close() {
	if f == nil {
		return
	}
	_ = f.Close()
	if f.fresh {
		_ = os.Remove(f.Name())
	}
}
