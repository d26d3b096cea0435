package web

import "github.com/yi-json/synapse/messages"

// This file owns how the page shows what a running job uses.

// use holds the use of a running job, as the page shows it.
type use struct {
	CPU    string `json:"cpu"` // cores in use
	Memory int64  `json:"memory"`
	Peak   int64  `json:"peak"`
	GPU    string `json:"gpu,omitempty"` // empty: not measured
	Hour   string `json:"hour,omitempty"`
	Idle   int64  `json:"idle,omitempty"` // ms
}

// useOf returns nil if no task was measured.
func useOf(u *messages.Use) *use {
	if u.GetTasks() == 0 {
		return nil
	}
	return &use{
		CPU: u.CPUWords(), Memory: u.MemoryBytes, Peak: u.PeakMemoryBytes, GPU: u.GPUWords(), Hour: u.GPUHourWords(),
		Idle: u.IdleMs,
	}
}
