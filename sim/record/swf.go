package record

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// This file reads the Standard Workload Format of the Parallel Workloads Archive: 18 numbers in a line, -1 for an
// unknown value, and comments after a semicolon.

// Fields of a line.
const (
	swfSubmit      = 1
	swfWait        = 2
	swfRun         = 3
	swfAllocated   = 4
	swfRequested   = 7
	swfLimit       = 8
	swfStatus      = 10
	swfUser        = 11
	swfQueue       = 14
	swfFields      = 18
	swfFieldsLeast = 15 // older logs lack the last fields
)

// readSWF reads a record in SWF. A number of its processors count as one GPU.
func readSWF(from io.Reader, procsToGPU int) (*Trace, error) {
	t := &Trace{}
	err := eachLine(from, func(number int, text string) error {
		text, _, _ = strings.Cut(text, ";")
		if fields := strings.Fields(text); len(fields) > 0 {
			t.swfRow(number, fields, procsToGPU)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return t.checked()
}

func (t *Trace) swfRow(line int, fields []string, procsToGPU int) {
	if len(fields) < swfFieldsLeast {
		t.Bad = append(t.Bad, BadRow{line, fmt.Sprintf("%d fields are too few: a line of SWF has %d",
			len(fields), swfFields)})
		return
	}
	var n [swfFields]float64
	for i := range min(len(fields), swfFields) {
		f, err := strconv.ParseFloat(fields[i], 64)
		if err != nil || math.IsNaN(f) || math.Abs(f) > submitMost {
			t.Bad = append(t.Bad, BadRow{line, fmt.Sprintf("field %d: %q is not a valid number", i+1, fields[i])})
			return
		}
		n[i] = f
	}
	procs := int(n[swfAllocated])
	if procs < 1 {
		procs = int(n[swfRequested])
	}
	switch {
	case n[swfStatus] >= 2 && n[swfStatus] <= 4:
		t.setAside("parts of a job with its own line")
	case n[swfRun] <= 0:
		t.setAside("never ran")
	case n[swfSubmit] < 0:
		t.Bad = append(t.Bad, BadRow{line, "field 2: no submit time"})
	case procs < 1:
		t.Bad = append(t.Bad, BadRow{line, "fields 5 and 8: no processors"})
	default:
		j := Job{Submit: secs(n[swfSubmit]), Duration: secs(n[swfRun]), Limit: secs(max(n[swfLimit], 0)),
			GPUs: (procs + procsToGPU - 1) / procsToGPU, Line: line,
			User: numbered("user", n[swfUser]), Queue: numbered("queue", n[swfQueue]), HasWaited: n[swfWait] >= 0,
			Waited: secs(max(n[swfWait], 0))}
		t.Jobs = append(t.Jobs, j)
	}
}

// numbered returns a name for an entity that SWF only numbers.
func numbered(what string, n float64) string {
	if n < 0 {
		return ""
	}
	return what + "-" + strconv.Itoa(int(n))
}

func secs(s float64) time.Duration { return time.Duration(math.Round(s * 1e9)) }
