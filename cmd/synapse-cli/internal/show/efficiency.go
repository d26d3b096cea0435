package show

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
)

// This file prints how GPU time was used.

// EfficiencyKeys lists the values of --by, and EfficiencyFormats those of -o. The empty format is the table.
var (
	EfficiencyKeys    = []string{"class", "owner", "queue", "day"}
	EfficiencyFormats = []string{"", "table", "json"}
)

// spent is a row: GPU time by class, in thousandths of GPUs times milliseconds.
type spent struct {
	name     string
	of       map[messages.GpuClass]int64
	lost     map[messages.Cause]int64
	sum      int64
	capacity int64
}

func (r *spent) add(row *messages.GpuTimeRow) {
	for _, a := range row.GetAmounts() {
		r.of[a.GetClass()] += a.GetMilliGpuMs()
		r.sum += a.GetMilliGpuMs()
		if a.GetClass() == messages.GpuClass_GPU_CLASS_LOST {
			r.lost[a.GetCause()] += a.GetMilliGpuMs()
		}
	}
	r.capacity += row.GetCapacityMilliGpuMs()
}

// gpuClasses returns all classes in order.
func gpuClasses() (all []messages.GpuClass) {
	for c := messages.GpuClass_GPU_CLASS_PRODUCTIVE; c <= messages.GpuClass_GPU_CLASS_CLOSED; c++ {
		all = append(all, c)
	}
	return all
}

func classWord(c messages.GpuClass) string {
	return renamed.Word(renamed.GPUClass, messages.Word(c.String(), "GPU_CLASS_"))
}

func causeWord(c messages.Cause) string {
	return renamed.Word(renamed.Cause, messages.Word(c.String(), "CAUSE_"))
}

func holdingWord(s messages.SliceState) string {
	return renamed.Word(renamed.Holding, messages.Word(s.String(), "SLICE_STATE_"))
}

// Efficiency prints how GPU time was used, by the requested key.
func Efficiency(w io.Writer, s Style, by string, reply *messages.GetEfficiencyReply) error {
	rows := spentBy(by, reply.GetTime().GetRows())
	switch {
	case s.Format == "json":
		return efficiencyJSON(w, by, reply, rows)
	case by == "class":
		return efficiencyByClass(w, s, reply, rows)
	}
	columns := []column[*spent]{{head: strings.ToUpper(by), cell: func(r *spent) string { return orDash(r.name) }}}
	for _, class := range gpuClasses() {
		columns = append(columns, column[*spent]{
			head: strings.ToUpper(classWord(class)), right: true,
			cell: func(r *spent) string { return hours(r.of[class]) },
		})
	}
	columns = append(columns, column[*spent]{
		head: "GPU-HOURS", right: true, cell: func(r *spent) string { return hours(r.sum) },
	})
	return table(w, s, columns, rows)
}

// spentBy adds up rows by name or by day.
func spentBy(by string, rows []*messages.GpuTimeRow) (all []*spent) {
	known := map[string]*spent{}
	for _, row := range rows {
		name := row.GetName()
		if by == "day" {
			name = time.UnixMilli(row.GetDay() * 24 * 60 * 60 * 1000).UTC().Format(time.DateOnly)
		}
		if known[name] == nil {
			known[name] = &spent{name: name, of: map[messages.GpuClass]int64{}, lost: map[messages.Cause]int64{}}
			all = append(all, known[name])
		}
		known[name].add(row)
	}
	return all
}

// line is one class, or one cause of lost time.
type line struct {
	word        string
	amount, all int64
	now         int64 // thousandths; negative: none
}

func efficiencyByClass(w io.Writer, s Style, reply *messages.GetEfficiencyReply, rows []*spent) error {
	r := &spent{}
	if len(rows) > 0 {
		r = rows[0]
	}
	now := map[messages.GpuClass]int64{}
	for _, n := range reply.GetNow() {
		now[n.GetClass()] = n.GetMilliGpu()
	}
	var lines []line
	for _, class := range gpuClasses() {
		lines = append(lines, line{classWord(class), r.of[class], r.capacity, now[class]})
		if class != messages.GpuClass_GPU_CLASS_LOST {
			continue
		}
		lines[len(lines)-1].now = -1
		for c := range int32(len(messages.Cause_name)) {
			if n := r.lost[messages.Cause(c)]; n > 0 {
				lines = append(lines, line{"lost: " + causeWord(messages.Cause(c)), n, r.capacity, -1})
			}
		}
	}
	lines = append(lines, line{"all", r.capacity, r.capacity, reply.GetCapacityMilliGpu()})
	return table(w, s, []column[line]{
		{head: "CLASS", cell: func(l line) string { return l.word }},
		{head: "GPU-HOURS", right: true, cell: func(l line) string { return hours(l.amount) }},
		{head: "SHARE", right: true, cell: line.share},
		{head: "GPUS NOW", right: true, cell: func(l line) string {
			if l.now < 0 {
				return "-"
			}
			return milli(l.now)
		}},
	}, lines)
}

func (l line) share() string {
	if l.all == 0 {
		return "-"
	}
	return fmt.Sprintf("%.1f%%", 100*float64(l.amount)/float64(l.all))
}

// efficiencyObject holds the used GPU time for programs, in GPU-seconds.
type efficiencyObject struct {
	APIVersion string           `json:"apiVersion"`
	Kind       string           `json:"kind"`
	By         string           `json:"by"`
	Since      string           `json:"since"`
	Until      string           `json:"until"`
	Rows       []efficiencyRow  `json:"rows"`
	Now        map[string]int64 `json:"milliGpusNow,omitempty"`
}

type efficiencyRow struct {
	Name       string             `json:"name"`
	GPUSeconds map[string]float64 `json:"gpuSeconds"`
	Lost       map[string]float64 `json:"lostGpuSeconds,omitempty"` // by cause
	Sum        float64            `json:"sumGpuSeconds"`
	Capacity   float64            `json:"capacityGpuSeconds,omitempty"`
}

func efficiencyJSON(w io.Writer, by string, reply *messages.GetEfficiencyReply, rows []*spent) error {
	gpuSeconds := func(n int64) float64 { return float64(n) / 1e6 }
	o := efficiencyObject{
		APIVersion: "synapse/v1", Kind: "Efficiency", By: by, Since: stamp(reply.GetTime().GetSinceUnixMs()),
		Until: stamp(reply.GetTime().GetUntilUnixMs()), Rows: []efficiencyRow{}, Now: map[string]int64{},
	}
	for _, r := range rows {
		row := efficiencyRow{
			Name: r.name, GPUSeconds: map[string]float64{}, Lost: map[string]float64{}, Sum: gpuSeconds(r.sum),
			Capacity: gpuSeconds(r.capacity),
		}
		for _, class := range gpuClasses() {
			row.GPUSeconds[classWord(class)] = gpuSeconds(r.of[class])
		}
		for cause, n := range r.lost {
			row.Lost[causeWord(cause)] = gpuSeconds(n)
		}
		o.Rows = append(o.Rows, row)
	}
	for _, n := range reply.GetNow() {
		o.Now[classWord(n.GetClass())] = n.GetMilliGpu()
	}
	return Object(w, "json", o)
}
