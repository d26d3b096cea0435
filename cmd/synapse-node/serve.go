package main

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/actors/worker"
	"github.com/yi-json/synapse/cluster/host"
	"github.com/yi-json/synapse/cluster/link"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/disk"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/health"
	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/machine"
	"github.com/yi-json/synapse/topology"
)

// This file starts and stops the parts of an agent in order.

// serve runs an agent until a signal or a permanent error.
func serve(o options) error {
	signals := told()
	dir, err := filepath.Abs(o.dataDir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	me, err := machine.Open(dir)
	if err != nil {
		return err
	}
	defer me.Close()
	log := host.NewLogIn(o.logFormat, os.Stderr, o.debug)
	badge, id, err := o.badge(me, log)
	if err != nil {
		return err
	}
	log = log.On(id)
	announcement, gpus, err := o.announce(gpu.Record{File: filepath.Join(dir, "gpus"), BootID: me.BootID()}, log)
	if err != nil {
		return err
	}
	h := host.New(log)
	images, err := o.openImages(dir, log)
	if err != nil {
		return err
	}
	defer images.Close()
	with, err := o.choose(dir, images, gpus.hardware, log)
	if err != nil {
		return err
	}
	// The link comes first, because it sets the address of the actor system.
	streams := link.Dial(h.System(), link.Options{
		Node: topology.NodeID(id), MachineID: me.MachineID(), Incarnation: me.Incarnation(),
		Schedulers: o.join, Log: log, Count: h.Count, Credentials: shown(badge),
	})
	defer streams.Close()
	defer o.keep(badge, log)()
	with.announce(announcement)
	containers, ending, err := o.newLauncher(gpus, images, launcher.Options{
		System: h.System(), Log: log, Dir: filepath.Join(dir, "launcher"), BootID: me.BootID(), Gpus: announcement.Gpus,
		Supervisor: with.supervisor, Drivers: with.drivers, Carry: carrying(streams), Kubeflow: true,
		Scripts: scriptsOver(streams), Secrets: secretsOver(streams), Reach: reaching(streams), OwnJob: ownJobOver(streams),
	})
	if err != nil {
		return err
	}
	defer ending()
	defer with.begin()()
	ledger := disk.New(h.System(), filepath.Join(dir, "ledger"))
	defer ledger.Close()
	worker.Assemble(worker.Ports{
		Ports: actors.Ports{
			System: h.System(), Host: h, Clock: h.Clock(), Log: log, Constants: actors.DefaultConstants(),
		},
		Node: topology.NodeID(id), MachineID: me.MachineID(), Incarnation: me.Incarnation(),
		Announcement: announcement, Disk: ledger, Launcher: containers, Users: with.users.Now,
	})
	unseen, err := o.showFigures(h, log)
	if err != nil {
		return err
	}
	defer unseen()
	defer gpus.watch(h, log).Close()
	defer daemon.Ready()()
	defer daemon.Reloading{Prefix: twins, Fresh: reading, Log: log.Info, Live: map[string]func(string){
		"debug": func(text string) { log.SetDebug(text == "true") },
	}}.Watch()()
	return until(signals, h, log)
}

// told returns the channel of the signals that end an agent.
func told() <-chan os.Signal {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, syscall.SIGTERM, syscall.SIGINT)
	return signals
}

// newLauncher creates the launcher of tasks, and starts the health checks.
func (o *options) newLauncher(gpus *devices, images *image.Store, of launcher.Options) (l *launcher.Launcher,
	ending func(), err error) {
	var checks *health.Runner
	of.Around, err = o.newAround(filepath.Join(of.Dir, "hooks"), func() {
		checks.Run(health.Aside, func(*messages.MachineHealth) {})
	})
	if err != nil {
		return nil, nil, err
	}
	if checks, err = o.newHealth(gpus, of.Around, func(h *messages.MachineHealth) { l.TellHealth(h) }); err != nil {
		return nil, nil, err
	}
	of.Health, of.Evict, of.Helper, of.KernelLog = checks, images.Evict, o.helper(), kernelLog
	of.GpuUse = gpus.uses.Of
	if l, err = launcher.New(of); err != nil {
		return nil, nil, err
	}
	images.KeepFree(l.Promised)
	checks.Begin()
	return l, func() { checks.Close(); l.Close() }, nil
}

// until waits for a signal or a permanent error.
func until(signals <-chan os.Signal, h *host.Host, log actors.Log) error {
	select {
	case got := <-signals:
		log.Info("%s: stopping; the tasks continue, and the next agent takes them over", got)
		go func() { // a second signal ends the process immediately
			<-signals
			os.Exit(1)
		}()
		return nil
	case err := <-h.Ended():
		return err
	}
}
