package record

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file reads the output of Slurm's `sacct --parsable2` (or --parsable): a header with the names of the columns,
// and a row for each job, element of an array, and step. The caller of sacct chose the columns.

// Columns of sacct.
const (
	sacctID     = "JobID"
	sacctSubmit = "Submit"
)

// readSacct reads the output of sacct.
func readSacct(from io.Reader) (*Trace, error) {
	t := &Trace{}
	var header []string
	err := eachLine(from, func(number int, text string) error {
		if strings.TrimSpace(text) == "" {
			return nil
		}
		fields := strings.Split(strings.TrimPrefix(text, "\ufeff"), "|")
		if header == nil {
			header = fields
			return sacctColumns(header)
		}
		t.sacctRow(csvRow{number, header, fields})
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case header == nil:
		return nil, fmt.Errorf("no header: run sacct without --noheader")
	}
	return t.checked()
}

// sacctColumns rejects a header that lacks a column which every replay needs.
func sacctColumns(header []string) error {
	for _, wanted := range [][]string{
		{sacctID}, {sacctSubmit}, {"ElapsedRaw", "Elapsed", "End"}, {"AllocTRES", "ReqTRES"},
	} {
		if !slices.ContainsFunc(wanted, func(column string) bool { return slices.Contains(header, column) }) {
			return fmt.Errorf("column %s is missing; present columns: %s",
				strings.Join(wanted, " or "), strings.Join(header, ", "))
		}
	}
	return nil
}

// sacctRow reads one row. It ignores steps, because they are parts of a job with its own row.
func (t *Trace) sacctRow(r csvRow) {
	state, _, _ := strings.Cut(r.get("State"), " ") // "CANCELLED by 1000"
	gpus, wrong := r.slurmGPUs()
	submit, err := r.slurmTime(sacctSubmit)
	ran, odd := r.slurmElapsed()
	switch {
	case strings.Contains(r.get(sacctID), "."):
		return
	case r.get(sacctID) == "":
		t.Bad = append(t.Bad, BadRow{r.line, "JobID is empty"})
	case slices.Contains([]string{"PENDING", "RUNNING", "SUSPENDED", "REQUEUED"}, state):
		t.setAside("not over yet")
	case err != nil || odd != nil || wrong != nil:
		for _, err := range []error{err, odd, wrong} {
			if err != nil {
				t.Bad = append(t.Bad, BadRow{r.line, err.Error()})
				return
			}
		}
	case ran <= 0:
		t.setAside("never ran")
	case gpus == 0:
		t.setAside("without GPUs")
	default:
		j := Job{Submit: submit, Duration: ran, Limit: r.slurmLimit(), GPUs: gpus, User: r.get("User"),
			Queue: r.get("Partition"), Line: r.line}
		if start, err := r.slurmTime("Start"); err == nil && start >= submit {
			j.Waited, j.HasWaited = start-submit, true
		}
		t.Jobs = append(t.Jobs, j)
	}
}

// slurmTime parses a time. sacct prints local time without a zone. When clocks are set back, one hour is ambiguous,
// unless sacct printed seconds (SLURM_TIME_FORMAT=%s).
func (r csvRow) slurmTime(column string) (time.Duration, error) {
	text := r.get(column)
	if n, err := strconv.ParseInt(text, 10, 64); err == nil && n >= 0 && n < submitMost {
		return time.Duration(n) * time.Second, nil
	}
	at, err := time.Parse("2006-01-02T15:04:05", text)
	if err != nil || at.Unix() < 0 || at.Unix() > submitMost {
		return 0, fmt.Errorf("%s: %q is not a time", column, text)
	}
	return time.Duration(at.Unix()) * time.Second, nil
}

// slurmElapsed returns how long a job ran.
func (r csvRow) slurmElapsed() (time.Duration, error) {
	if text := r.get("ElapsedRaw"); text != "" {
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 || n > secondsMost {
			return 0, fmt.Errorf("%s: %q is not a number of seconds", "ElapsedRaw", text)
		}
		return time.Duration(n) * time.Second, nil
	}
	if text := r.get("Elapsed"); text != "" {
		d, ok := slurmSpan(text)
		if !ok {
			return 0, fmt.Errorf("%s: %q is not a duration", "Elapsed", text)
		}
		return d, nil
	}
	start, err := r.slurmTime("Start")
	end, odd := r.slurmTime("End")
	if err != nil || odd != nil {
		return 0, nil // it never started
	}
	return end - start, nil
}

// slurmLimit returns the requested time limit, or 0 if it is unknown or there was none.
func (r csvRow) slurmLimit() time.Duration {
	if n, err := strconv.ParseInt(r.get("TimelimitRaw"), 10, 64); err == nil && n > 0 && n < secondsMost/60 {
		return time.Duration(n) * time.Minute
	}
	d, _ := slurmSpan(r.get("Timelimit"))
	return d
}

// slurmSpan parses [days-]hours:minutes:seconds or minutes:seconds, with or without thousandths.
func slurmSpan(text string) (time.Duration, bool) {
	days, clock, long := strings.Cut(text, "-")
	if !long {
		days, clock = "0", text
	}
	clock, _, _ = strings.Cut(clock, ".")
	parts := strings.Split(clock, ":")
	if len(parts) > 3 || len(parts) < 2 && !long {
		return 0, false
	}
	if long {
		parts = append(parts, "0", "0")[:3] // 1-12 is a day and twelve hours
	}
	sum, err := strconv.ParseUint(days, 10, 16)
	for i, part := range parts {
		n, wrong := strconv.ParseUint(part, 10, 16)
		if wrong != nil {
			return 0, false
		}
		base := uint64(60)
		if i == 0 && len(parts) == 3 {
			base = 24
		}
		sum = sum*base + n
	}
	return time.Duration(sum) * time.Second, err == nil
}

// slurmGPUs returns the allocated GPUs of a job, or else the requested ones.
func (r csvRow) slurmGPUs() (int, error) {
	for _, column := range []string{"AllocTRES", "ReqTRES"} {
		if text := r.get(column); text != "" {
			return tresGPUs(column, text)
		}
	}
	return 0, nil
}

// tresGPUs parses "billing=8,cpu=8,gres/gpu=4,gres/gpu:a100=4,node=1". It returns the plain count, or the sum of the
// types if there is none.
func tresGPUs(column, text string) (int, error) {
	all, typed := -1, 0
	for _, part := range strings.Split(text, ",") {
		name, amount, _ := strings.Cut(part, "=")
		if name != "gres/gpu" && !strings.HasPrefix(name, "gres/gpu:") {
			continue
		}
		n, err := strconv.ParseUint(amount, 10, 31)
		if err != nil {
			return 0, fmt.Errorf("%s: %q is not a number of GPUs", column, part)
		}
		if name == "gres/gpu" {
			all = int(n)
		} else {
			typed += int(n)
		}
	}
	if all >= 0 {
		return all, nil
	}
	return typed, nil
}
