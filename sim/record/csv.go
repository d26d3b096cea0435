package record

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file reads records in CSV: a header with the names of the columns, and a row for each job.

// Columns of a record. A missing value is unknown.
const (
	columnID       = "job_id"
	columnSubmit   = "submit_s"
	columnDuration = "duration_s"
	columnGPUs     = "gpus"
	columnTasks    = "tasks"
	columnUser     = "user"
	columnQueue    = "queue"
	columnLimit    = "requested_walltime_s"
	columnWaited   = "real_wait_s"
)

// ReadCSV reads a record, and the limits of its jobs from a second file, if it is not nil. Either may be compressed.
func ReadCSV(record, limits io.Reader) (*Trace, error) {
	more, err := readLimits(limits)
	if err != nil {
		return nil, &LimitsError{err}
	}
	t := &Trace{}
	err = eachRow(record, []string{columnSubmit, columnDuration, columnGPUs}, func(r csvRow) {
		j, err := jobOf(r)
		if err != nil {
			t.Bad = append(t.Bad, BadRow{r.line, err.Error()})
			return
		}
		if beside, ok := more[r.get(columnID)]; ok {
			j.asked(beside)
		}
		t.Jobs = append(t.Jobs, j)
	})
	if err != nil {
		return nil, err
	}
	return t.checked()
}

// LimitsError is an error in the second file.
type LimitsError struct{ err error }

func (e *LimitsError) Error() string { return e.err.Error() }
func (e *LimitsError) Unwrap() error { return e.err }

// readLimits reads the second file, which identifies its jobs.
func readLimits(from io.Reader) (map[string]csvRow, error) {
	rows := map[string]csvRow{}
	if from == nil {
		return rows, nil
	}
	return rows, eachRow(from, []string{columnID, columnLimit}, func(r csvRow) { rows[r.get(columnID)] = r })
}

// asked takes a job's requested time limit and its waiting time from a row.
func (j *Job) asked(r csvRow) {
	if d, err := r.seconds(columnLimit, secondsMost); err == nil && d > 0 {
		j.Limit = d
	}
	if d, err := r.seconds(columnWaited, secondsMost); err == nil {
		j.Waited, j.HasWaited = d, true
	}
}

// jobOf parses a row.
func jobOf(r csvRow) (Job, error) {
	submit, err := r.seconds(columnSubmit, submitMost)
	duration, wrong := r.seconds(columnDuration, secondsMost)
	gpus, odd := strconv.Atoi(r.get(columnGPUs))
	switch {
	case err != nil:
		return Job{}, err
	case wrong != nil:
		return Job{}, wrong
	case odd != nil:
		return Job{}, fmt.Errorf("%s: %q is not an integer", columnGPUs, r.get(columnGPUs))
	case gpus < 1:
		return Job{}, fmt.Errorf("%s: %d is too small: a job has at least 1", columnGPUs, gpus)
	case duration == 0:
		return Job{}, fmt.Errorf("%s: must not be 0", columnDuration)
	}
	tasks := 0
	if text := r.get(columnTasks); text != "" {
		if tasks, err = strconv.Atoi(text); err != nil || tasks < 0 || tasks > 0 && gpus%tasks != 0 {
			return Job{}, fmt.Errorf("%s: %d GPUs cannot be divided evenly among %q tasks", columnTasks, gpus, text)
		}
	}
	j := Job{Submit: submit, Duration: duration, GPUs: gpus, Tasks: tasks, User: r.get(columnUser),
		Queue: r.get(columnQueue), Line: r.line}
	j.asked(r)
	return j, nil
}

// csvRow holds one line under a header.
type csvRow struct {
	line   int
	header []string
	fields []string
}

func (r csvRow) get(column string) string {
	if i := slices.Index(r.header, column); i >= 0 && i < len(r.fields) {
		return strings.TrimSpace(r.fields[i])
	}
	return ""
}

const (
	// secondsMost is ten years. A longer job is an error in the record.
	secondsMost = 10 * 365 * 24 * 3600
	// submitMost is two hundred years, because submit times may be in seconds since 1970.
	submitMost = 20 * secondsMost
)

func (r csvRow) seconds(column string, most float64) (time.Duration, error) {
	s, err := strconv.ParseFloat(r.get(column), 64)
	switch {
	case err != nil || math.IsNaN(s):
		return 0, fmt.Errorf("%s: %q is not a number of seconds", column, r.get(column))
	case s < 0:
		return 0, fmt.Errorf("%s: %v is negative", column, s)
	case s > most:
		return 0, fmt.Errorf("%s: %v seconds exceed %v years", column, s, most/secondsMost*10)
	}
	return secs(s), nil
}

// eachRow visits the rows under the header. The header must contain the wanted columns.
func eachRow(from io.Reader, wanted []string, visit func(csvRow)) error {
	plain, err := decompressed(from)
	if err != nil {
		return err
	}
	in := csv.NewReader(plain)
	in.FieldsPerRecord, in.ReuseRecord = -1, false
	header, err := in.Read()
	if err != nil {
		return fmt.Errorf("no header: %w", err)
	}
	for i := range header {
		header[i] = strings.TrimSpace(strings.TrimPrefix(header[i], "\ufeff"))
	}
	for _, column := range wanted {
		if !slices.Contains(header, column) {
			return fmt.Errorf("column %s is missing; present columns: %s", column, strings.Join(header, ", "))
		}
	}
	for {
		fields, err := in.Read()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		line, _ := in.FieldPos(0)
		visit(csvRow{line, header, fields})
	}
}

// WriteCSV writes a workload in the form that ReadCSV reads.
func WriteCSV(to io.Writer, t *Trace) error {
	out := csv.NewWriter(to)
	rows := [][]string{
		{columnID, columnSubmit, columnDuration, columnGPUs, columnTasks, columnUser, columnQueue, columnLimit, columnWaited},
	}
	first := time.Duration(math.MaxInt64)
	for _, j := range t.Jobs {
		first = min(first, j.Submit)
	}
	for i, j := range t.Jobs {
		row := []string{
			strconv.Itoa(i + 1), inSeconds(j.Submit - first), inSeconds(j.Duration), strconv.Itoa(j.GPUs), "",
			messages.OneLine(j.User), messages.OneLine(j.Queue), "", "", // so that a row is one line
		}
		if j.Tasks > 0 {
			row[4] = strconv.Itoa(j.Tasks)
		}
		if j.Limit > 0 {
			row[7] = inSeconds(j.Limit)
		}
		if j.HasWaited {
			row[8] = inSeconds(j.Waited)
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}

func inSeconds(d time.Duration) string {
	return strconv.FormatFloat(d.Seconds(), 'f', -1, 64)
}
