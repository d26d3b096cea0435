package messages

import (
	"fmt"
	"strconv"
)

// This file has the limits of what tasks use, their sum, and the words for it.

const (
	// maxUse limits amounts that grow for the life of a task, and their sums over the largest gang.
	maxUse = 1 << 61
	// maxPercents limits the sum of the percents of all GPUs of a gang.
	maxPercents = 100 * MaxGangTasks * MaxMilliGPU / 1000
)

// valid refuses amounts that no node can have measured.
func (x *Use) valid() error {
	return first(
		between("tasks", int64(x.GetTasks()), 0, MaxGangTasks),
		between("processes", int64(x.GetProcesses()), 0, 1<<31-1),
		between("cpu_ms", x.GetCpuMs(), 0, maxUse),
		between("milli_cpu", x.GetMilliCpu(), 0, maxUse),
		between("memory_bytes", x.GetMemoryBytes(), 0, maxUse),
		between("peak_memory_bytes", x.GetPeakMemoryBytes(), 0, maxUse),
		between("disk_bytes", x.GetDiskBytes(), 0, maxUse),
		between("network_bytes", x.GetNetworkBytes(), 0, maxUse),
		between("network_tasks", int64(x.GetNetworkTasks()), 0, MaxGangTasks),
		between("gpus", int64(x.GetGpus()), 0, MaxGangTasks*MaxMilliGPU/1000),
		between("gpu_percent", x.GetGpuPercent(), 0, maxPercents),
		between("gpu_hour_percent", x.GetGpuHourPercent(), 0, maxPercents),
		between("gpu_memory_bytes", x.GetGpuMemoryBytes(), 0, maxUse),
		between("idle_ms", x.GetIdleMs(), 0, MaxDurationMs),
	)
}

// Plus returns the sum of what different tasks use. It is idle only if each part is idle.
func (x *Use) Plus(y *Use) *Use {
	if x == nil {
		return y
	}
	if y == nil {
		return x
	}
	sum := func(a, b int64) int64 { return min(a+b, maxUse) } // two amounts of at most maxUse do not overflow
	return &Use{
		Tasks: x.Tasks + y.Tasks, Processes: x.Processes + y.Processes, CpuMs: sum(x.CpuMs, y.CpuMs),
		MilliCpu: sum(x.MilliCpu, y.MilliCpu), MemoryBytes: sum(x.MemoryBytes, y.MemoryBytes),
		PeakMemoryBytes: max(x.PeakMemoryBytes, y.PeakMemoryBytes), DiskBytes: sum(x.DiskBytes, y.DiskBytes),
		NetworkBytes: sum(x.NetworkBytes, y.NetworkBytes), NetworkTasks: x.NetworkTasks + y.NetworkTasks,
		Gpus: x.Gpus + y.Gpus, GpuPercent: sum(x.GpuPercent, y.GpuPercent),
		GpuHourPercent: sum(x.GpuHourPercent, y.GpuHourPercent), GpuMemoryBytes: sum(x.GpuMemoryBytes, y.GpuMemoryBytes),
		IdleMs: min(x.IdleMs, y.IdleMs),
	}
}

// CPUWords returns the cores that a job uses, such as "3.4"; "" if that is unknown.
func (x *Use) CPUWords() string {
	if x.GetTasks() == 0 {
		return ""
	}
	if x.MilliCpu >= 10_000 {
		return strconv.FormatInt(x.MilliCpu/1000, 10)
	}
	return fmt.Sprintf("%d.%d", x.MilliCpu/1000, x.MilliCpu%1000/100)
}

// GPUWords returns the share of a job's GPUs that was busy in the last minute, such as "87%"; "" if that is unknown.
func (x *Use) GPUWords() string { return x.meanOf(x.GetGpuPercent()) }

// GPUHourWords returns the same for the last hour.
func (x *Use) GPUHourWords() string { return x.meanOf(x.GetGpuHourPercent()) }

func (x *Use) meanOf(percents int64) string {
	if x.GetGpus() == 0 {
		return ""
	}
	return strconv.FormatInt(percents/int64(x.Gpus), 10) + "%"
}
