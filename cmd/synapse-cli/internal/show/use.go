package show

import (
	"github.com/yi-json/synapse/messages"
)

// This file prints what a running job uses.

// useObj is what the tasks of a running job use, in -o json. An absent value is not measured.
type useObj struct {
	Tasks           int32   `json:"tasks"` // number of measured tasks
	Processes       int32   `json:"processes"`
	CPUSeconds      float64 `json:"cpuSeconds"` // since the start, like diskBytes and networkBytes
	Cores           float64 `json:"cores"`      // in the last 10 seconds
	MemoryBytes     int64   `json:"memoryBytes"`
	PeakMemoryBytes int64   `json:"peakMemoryBytes"` // highest peak of a single task
	DiskBytes       int64   `json:"diskBytes"`
	NetworkBytes    *int64  `json:"networkBytes,omitempty"`
	GPUs            int32   `json:"measuredGpus"`
	GPUPercent      *int64  `json:"gpuPercent,omitempty"` // mean of the measured GPUs in the last minute
	GPUHourPercent  *int64  `json:"gpuPercentLastHour,omitempty"`
	GPUMemoryBytes  *int64  `json:"gpuMemoryBytes,omitempty"`
	IdleSeconds     int64   `json:"idleSeconds,omitempty"`
}

func useObject(u *messages.Use) *useObj {
	if u.GetTasks() == 0 {
		return nil
	}
	o := &useObj{
		Tasks: u.Tasks, Processes: u.Processes, CPUSeconds: float64(u.CpuMs) / 1000, Cores: float64(u.MilliCpu) / 1000,
		MemoryBytes: u.MemoryBytes, PeakMemoryBytes: u.PeakMemoryBytes, DiskBytes: u.DiskBytes, GPUs: u.Gpus,
		IdleSeconds: u.IdleMs / 1000,
	}
	if u.NetworkTasks > 0 {
		o.NetworkBytes = &u.NetworkBytes
	}
	if n := int64(u.Gpus); n > 0 {
		now, hour := u.GpuPercent/n, u.GpuHourPercent/n
		o.GPUPercent, o.GPUHourPercent, o.GPUMemoryBytes = &now, &hour, &u.GpuMemoryBytes
	}
	return o
}

// describeUse prints what a running job uses.
func describeUse(p *page, u *messages.Use, gpus bool) {
	if u.GetTasks() == 0 {
		return
	}
	p.line("CPU use", u.CPUWords()+" cores, "+messages.Span(u.CpuMs)+" of CPU time since the start")
	p.line("Memory use", size(u.MemoryBytes)+", highest peak of a task "+size(u.PeakMemoryBytes))
	disk := "disk " + size(u.DiskBytes)
	if u.NetworkTasks > 0 {
		disk += ", network " + size(u.NetworkBytes)
	}
	p.line("Transferred", disk+" since the start")
	if gpus {
		p.line("GPU use", gpuUse(u))
	}
	if u.IdleMs > 0 {
		p.line("Idle", "for "+messages.Span(u.IdleMs))
	}
}

// gpuUse describes the activity of the GPUs.
func gpuUse(u *messages.Use) string {
	if u.GetGpus() == 0 {
		return "not measured"
	}
	return u.GPUWords() + ", " + u.GPUHourWords() + " in the last hour, " + size(u.GpuMemoryBytes) + " of GPU memory"
}
