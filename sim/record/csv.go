package record

import (
	"bufio"
	"compress/gzip"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// This file owns records in columns: a header that names them, and a row for each job.

// badMost is the share of bad rows above which a record is refused.
const badMost = 0.01

// Columns of a record. What is not there is unknown.
const (
	columnID       = "job_id"
	columnSubmit   = "submit_s"
	columnDuration = "duration_s"
	columnGPUs     = "gpus"
	columnUser     = "user"
	columnQueue    = "queue"
	columnLimit    = "requested_walltime_s"
)

// ReadCSV reads a record, and the limits of its jobs from a second one, if it is not nil. Either may be compressed.
func ReadCSV(record, limits io.Reader) (*Trace, error) {
	allowed, err := readLimits(limits)
	if err != nil {
		return nil, fmt.Errorf("limits: %w", err)
	}
	t := &Trace{}
	rows, err := eachRow(record, []string{columnSubmit, columnDuration, columnGPUs}, func(r row) {
		j, err := jobOf(r)
		if err != nil {
			t.Bad = append(t.Bad, BadRow{r.line, err.Error()})
			return
		}
		if limit, known := allowed[r.get(columnID)]; known {
			j.Limit = limit
		}
		t.Jobs = append(t.Jobs, j)
	})
	switch {
	case err != nil:
		return nil, err
	case rows == 0:
		return nil, errors.New("it has a header and no rows")
	case float64(len(t.Bad)) > badMost*float64(rows):
		return nil, fmt.Errorf("%d of %d rows are bad, as %v", len(t.Bad), rows, t.Bad[0])
	}
	return t, nil
}

func readLimits(from io.Reader) (map[string]time.Duration, error) {
	limits := map[string]time.Duration{}
	if from == nil {
		return limits, nil
	}
	_, err := eachRow(from, []string{columnID, columnLimit}, func(r row) {
		if d, err := r.seconds(columnLimit); err == nil && d > 0 {
			limits[r.get(columnID)] = d
		}
	})
	return limits, err
}

// jobOf reads a row.
func jobOf(r row) (Job, error) {
	submit, err := r.seconds(columnSubmit)
	duration, wrong := r.seconds(columnDuration)
	gpus, odd := strconv.Atoi(r.get(columnGPUs))
	switch {
	case err != nil:
		return Job{}, err
	case wrong != nil:
		return Job{}, wrong
	case odd != nil:
		return Job{}, fmt.Errorf("%s: %q is no whole number", columnGPUs, r.get(columnGPUs))
	case gpus < 1:
		return Job{}, fmt.Errorf("%s: %d: a job has at least 1", columnGPUs, gpus)
	case duration == 0:
		return Job{}, fmt.Errorf("%s: must not be 0", columnDuration)
	}
	limit, _ := r.seconds(columnLimit) // empty where the record has no such column
	return Job{Submit: submit, Duration: duration, Limit: limit, GPUs: gpus, User: r.get(columnUser), Queue: r.get(columnQueue), Line: r.line}, nil
}

// row is one line under a header.
type row struct {
	line   int
	header []string
	fields []string
}

func (r row) get(column string) string {
	if i := slices.Index(r.header, column); i >= 0 && i < len(r.fields) {
		return strings.TrimSpace(r.fields[i])
	}
	return ""
}

// secondsMost is ten years: beyond it a row is a mistake.
const secondsMost = 10 * 365 * 24 * 3600

func (r row) seconds(column string) (time.Duration, error) {
	s, err := strconv.ParseFloat(r.get(column), 64)
	switch {
	case err != nil || math.IsNaN(s):
		return 0, fmt.Errorf("%s: %q is no number of seconds", column, r.get(column))
	case s < 0:
		return 0, fmt.Errorf("%s: must not be negative, and is %v", column, s)
	case s > secondsMost:
		return 0, fmt.Errorf("%s: %v seconds are more than ten years", column, s)
	}
	return time.Duration(math.Round(s * 1e9)), nil
}

// eachRow visits the rows under the header, which must name certain columns, and counts them.
func eachRow(from io.Reader, wanted []string, visit func(row)) (int, error) {
	plain, err := decompressed(from)
	if err != nil {
		return 0, err
	}
	in := csv.NewReader(plain)
	in.FieldsPerRecord, in.ReuseRecord = -1, false
	header, err := in.Read()
	if err != nil {
		return 0, fmt.Errorf("it has no header: %w", err)
	}
	for i := range header {
		header[i] = strings.TrimSpace(header[i])
	}
	for _, column := range wanted {
		if !slices.Contains(header, column) {
			return 0, fmt.Errorf("it has no column %s; those it has: %s", column, strings.Join(header, ", "))
		}
	}
	for rows := 0; ; rows++ {
		fields, err := in.Read()
		if err == io.EOF {
			return rows, nil
		}
		if err != nil {
			return rows, err
		}
		line, _ := in.FieldPos(0)
		visit(row{line, header, fields})
	}
}

// decompressed is a file's content, whether it is compressed or not.
func decompressed(from io.Reader) (io.Reader, error) {
	buffered := bufio.NewReader(from)
	if magic, _ := buffered.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		return gzip.NewReader(buffered)
	}
	return buffered, nil
}
