package show

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file prints finished jobs. There may be a million, so all formats except the table are written while they
// arrive.

// HistoryFormats lists the values of -o for history.
var HistoryFormats = []string{"table", "wide", "json", "csv", "name"}

// past is a finished job, with the current time for its age.
type past struct {
	*messages.PastJob
	now int64
}

var pastColumns = []column[past]{
	{head: "JOB", cell: func(j past) string { return j.GetId() }},
	{head: "NAME", cell: func(j past) string { return j.Called() }},
	{head: "STATE", cell: past.state, paint: func(j past) string { return phaseColour(j.state()) }},
	{head: "EXIT", right: true, cell: func(j past) string { return fmt.Sprint(j.exit()) }},
	{head: "OWNER", cell: func(j past) string { return orDash(j.GetOwner()) }},
	{head: "QUEUE", cell: func(j past) string { return orDash(j.GetQueue()) }},
	{head: "TASKS", wide: true, right: true, cell: func(j past) string { return count(int(j.last().GetMembers())) }},
	{head: "NODES", wide: true, right: true, cell: func(j past) string { return count(len(j.last().GetNodes())) }},
	{head: "GPUS", right: true, cell: func(j past) string { return milli(j.last().GetMilliGpu()) }},
	{head: "ATTEMPTS", right: true, cell: func(j past) string { return fmt.Sprint(j.GetRuns()) }},
	{head: "WAITED", right: true, cell: past.waited},
	{head: "RUNTIME", right: true, cell: func(j past) string { return messages.Span(j.ranMs()) }},
	{head: "GPU-HOURS", right: true, cell: func(j past) string { return hours(j.GetMilliGpuMs()) }},
	{head: "PEAK", wide: true, right: true, cell: func(j past) string { return peak(j.PastJob) }},
	{head: "SUBMITTED", wide: true, times: true, cell: func(j past) string {
		return orDash(stamp(j.GetSubmittedUnixMs()))
	}},
	{head: "STARTED", wide: true, times: true, cell: func(j past) string { return orDash(stamp(j.GetStartedUnixMs())) }},
	{head: "FINISHED", wide: true, times: true, cell: func(j past) string { return orDash(stamp(j.GetFinishedUnixMs())) }},
	{head: "ENDED", right: true, cell: func(j past) string { return age(j.GetFinishedUnixMs(), j.now) }},
	{head: "LOST", wide: true, right: true, cell: past.lost},
	{head: "LATE", wide: true, right: true, cell: past.late},
	{head: "REASON", times: true, cell: func(j past) string { return j.GetReason() }},
}

func (j past) state() string { return messages.EndPhase(j.GetState()) }

func (j past) exit() int {
	return ExitCode(&messages.JobRecord{State: j.GetState(), ExitCode: j.GetExitCode()})
}

// last returns the final attempt, or nil if there was none.
func (j past) last() *messages.PastAttempt {
	if n := len(j.GetAttempts()); n > 0 {
		return j.GetAttempts()[n-1]
	}
	return nil
}

// waitMs returns how long the job waited for its first start, if it ever started.
func (j past) waitMs() (ms int64, started bool) {
	if j.GetStartedUnixMs() == 0 {
		return 0, false
	}
	return max(j.GetStartedUnixMs()-j.GetSubmittedUnixMs(), 0), true
}

func (j past) waited() string {
	if ms, started := j.waitMs(); started {
		return messages.Span(ms)
	}
	return "-"
}

// ranMs returns the total run time of all attempts.
func (j past) ranMs() (sum int64) {
	for _, a := range j.GetAttempts() {
		if a.GetStartedUnixMs() != 0 {
			sum += max(a.GetEndedUnixMs()-a.GetStartedUnixMs(), 0)
		}
	}
	return sum
}

// lost returns the total run time of the attempts that lost their work, after their last acknowledged checkpoints.
func (j past) lost() string {
	sum := int64(0)
	for _, a := range j.GetAttempts() {
		if ms, known := messages.LostAfter(a.GetRanMs(), a.GetSaved()); known && a.GetCause().LosesWork() {
			sum += ms
		}
	}
	if sum == 0 {
		return "-"
	}
	return messages.Span(sum)
}

func peakBytes(j *messages.PastJob) (most int64) {
	for _, a := range j.GetAttempts() {
		most = max(most, a.GetPeakMemoryBytes())
	}
	return most
}

func peak(j *messages.PastJob) string {
	if n := peakBytes(j); n > 0 {
		return size(n)
	}
	return "-"
}

func count(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

// hours formats thousandths of GPUs times milliseconds as GPU-hours.
func hours(milliGPUMs int64) string { return fmt.Sprintf("%.2f", float64(milliGPUMs)/1e6/3600) }

// seconds converts milliseconds without rounding.
func seconds(ms int64) float64 { return float64(ms) / 1000 }

// History prints finished jobs in parts. Call End last.
type History struct {
	w     io.Writer
	s     Style
	csv   *csv.Writer
	rows  []past // rows of a table, whose column widths depend on all rows
	items int
}

// NewHistory creates a History for one of HistoryFormats.
func NewHistory(w io.Writer, s Style) *History {
	h := &History{w: w, s: s}
	if s.Format == "csv" && !s.names() {
		h.csv = csv.NewWriter(w)
	}
	return h
}

// Add prints the next jobs.
func (h *History) Add(jobs []*messages.PastJob) error {
	for _, j := range jobs {
		if err := h.add(past{j, h.s.NowMs}); err != nil {
			return err
		}
	}
	if h.csv != nil {
		h.csv.Flush()
		return h.csv.Error()
	}
	return nil
}

func (h *History) add(j past) error {
	h.items++
	switch {
	case h.s.names():
		_, err := io.WriteString(h.w, j.GetId()+"\n")
		return err
	case h.csv != nil:
		if h.items == 1 {
			if err := h.header(); err != nil {
				return err
			}
		}
		return h.csv.Write(csvRow(j))
	case h.s.Format == "json":
		before := ",\n    "
		if h.items == 1 {
			before = listHead + "\n    "
		}
		return item(h.w, before, pastObject(j))
	}
	h.rows = append(h.rows, j)
	return nil
}

// End prints the rest.
func (h *History) End() error {
	var err error
	switch {
	case h.s.names():
	case h.csv != nil:
		if h.items == 0 {
			err = h.header()
		}
		if h.csv.Flush(); err == nil {
			err = h.csv.Error()
		}
	case h.s.Format == "json" && h.items == 0:
		_, err = io.WriteString(h.w, listHead+"]\n}\n")
	case h.s.Format == "json":
		_, err = io.WriteString(h.w, "\n  ]\n}\n")
	default:
		return table(h.w, h.s, pastColumns, h.rows)
	}
	return err
}

func (h *History) header() error {
	if h.s.NoHeaders {
		return nil
	}
	return h.csv.Write(csvHead)
}

const listHead = "{\n  \"apiVersion\": \"synapse/v1\",\n  \"kind\": \"History\",\n  \"items\": ["

// item prints one element of a list in the same form as document.
func item(w io.Writer, before string, object any) error {
	var b bytes.Buffer
	b.WriteString(before)
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("    ", "  ")
	if err := encoder.Encode(object); err != nil {
		return err
	}
	_, err := w.Write(bytes.TrimRight(b.Bytes(), "\n"))
	return err
}

// csvHead lists the columns. New columns may be appended; existing ones never change.
var csvHead = strings.Split("job,name,owner,queue,priority,state,exit_code,signal,reason,submitted,started,finished,"+
	"attempts,failures,infra_restarts,tasks,nodes,gpus,wait_seconds,runtime_seconds,gpu_seconds,peak_memory_bytes,labels,"+
	"estimated,expected,latest,late_seconds", ",")

func csvRow(j past) []string {
	wait := ""
	if ms, started := j.waitMs(); started {
		wait = fmt.Sprintf("%.3f", seconds(ms))
	}
	last := j.last()
	return append([]string{
		j.GetId(), j.Called(), j.GetOwner(), j.GetQueue(), fmt.Sprint(j.GetPriority()), j.state(), fmt.Sprint(j.exit()),
		fmt.Sprint(last.GetSignal()), oneLine(j.GetReason()),
		stamp(j.GetSubmittedUnixMs()), stamp(j.GetStartedUnixMs()), stamp(j.GetFinishedUnixMs()),
		fmt.Sprint(j.GetRuns()), fmt.Sprint(j.GetFailures()), fmt.Sprint(j.GetInfraRestarts()), fmt.Sprint(last.GetMembers()),
		fmt.Sprint(len(last.GetNodes())), milli(last.GetMilliGpu()),
		wait, fmt.Sprintf("%.3f", seconds(j.ranMs())), fmt.Sprintf("%.3f", gpuSeconds(j.GetMilliGpuMs())),
		fmt.Sprint(peakBytes(j.PastJob)), labels(j.GetLabels()),
	}, j.toldCells()...)
}

func gpuSeconds(milliGPUMs int64) float64 { return float64(milliGPUMs/1000) / 1000 }
