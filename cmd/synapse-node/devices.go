package main

import (
	"context"
	"fmt"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/gpu"
)

// This file manages the agent's GPUs: it finds them at the start, logs the result, and notifies the Node of failed
// and recovered GPUs.

// A driver that hangs must not exclude a node forever. Up to three requests are made.
// kernelLog is the log of the kernel.
const kernelLog = "/dev/kmsg"

const (
	discovery    = 30 * time.Second
	allDiscovery = 3 * discovery
)

// devices holds the node's GPUs and their related devices.
type devices struct {
	finder   *gpu.Finder
	record   gpu.Record
	found    *gpu.Inventory
	hardware *gpu.Hardware
	uses     gpu.Uses
}

// findDevices uses the declared GPUs, or else detects them. It logs what was left out, and what images can use.
func (o *options) findDevices(record gpu.Record, log actors.Log) (*devices, error) {
	d := &devices{finder: gpu.New(gpu.Options{Timeout: discovery}), record: record}
	var err error
	var again bool
	if o.gpus >= 0 {
		d.found, err = gpu.Declared(o.gpus, o.gpuType)
	} else {
		ctx, cancel := context.WithTimeout(context.Background(), allDiscovery)
		defer cancel()
		d.found, again, err = d.finder.FindAgain(ctx, record)
	}
	if err != nil {
		return nil, fmt.Errorf("GPU detection failed: %w (use --gpus N to declare GPUs, or --gpus 0 for none)", err)
	}
	if again {
		log.Info("GPUs: reusing the devices that an earlier start detected since the last boot; the next check " +
			"detects them again")
	}
	d.hardware = gpu.NewHardware("", d.found.Devices)
	for _, f := range d.found.Devices {
		if !f.Gpu.Declared {
			log.Info("GPU %s: %s, %d MiB, at %s, memory node %d, %v",
				f.Gpu.Id, f.Gpu.Type, f.Gpu.MemoryBytes>>20, f.Gpu.BusId, f.NUMA, f.Nodes)
		}
	}
	for _, note := range append(d.found.Notes, d.hardware.Libraries()...) {
		log.Info("GPUs: %s", note)
	}
	return d, nil
}

// watch notifies the Node of failed GPUs. It repeats the notification at every check, because the Node may not
// exist yet at the first one.
func (d *devices) watch(h *host.Host, log actors.Log) *gpu.Watch {
	node := actor.NewPID(h.System().Address(), actors.NodePath)
	return gpu.StartWatch(gpu.Watching{
		Finder: d.finder, Devices: d.found.Devices, Note: log.Info, KernelLog: kernelLog,
		Uses: &d.uses,
		Tell: func(id, why string) {
			h.System().Root.Send(node, &messages.GpuFaulted{GpuId: id, Detail: why})
		},
		Differ: func() {
			log.Info("GPUs: the devices differ from the announced ones; restart the agent to announce them")
			if err := d.record.Forget(); err != nil {
				log.Info("GPUs: %v", err)
			}
		},
		Well: func(id string) { h.System().Root.Send(node, &messages.GpuRecovered{GpuId: id}) },
	})
}
