//go:build linux

package container

import (
	"os"

	"github.com/yi-json/synapse/runtime/door"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/private"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file owns what Prepare found behind a job's words, and how it comes to the task: as mounts that this agent holds from
// then on, and hands to the task's supervisor.

// prepared is what Prepare found behind the job's words.
type prepared struct {
	Image
	Mounts  []door.Ticket  `json:"mounts,omitempty"` // of the job's, in their order
	Network private.Joined `json:"network"`          // of a job with a private one
}

// tickets are for all that the job named by a path, always in the same order.
func (p *prepared) tickets() []*door.Ticket {
	var all []*door.Ticket
	if p.Named != nil {
		all = append(all, p.Named)
	}
	for i := range p.Mounts {
		all = append(all, &p.Mounts[i])
	}
	return all
}

func (p *prepared) close() {
	for _, ticket := range p.tickets() {
		ticket.Close()
	}
}

// hold makes the mounts of what was found, as it is still open, and keeps them.
func (d *Driver) hold(t *launcher.Task, p *prepared) error {
	held, err := holdAll(p)
	if err != nil {
		return err
	}
	d.letGo(t) // of an earlier time
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[t.Dir] = held
	return nil
}

func holdAll(p *prepared) ([]*os.File, error) {
	var held []*os.File
	for _, ticket := range p.tickets() {
		mount, err := ticket.Hold()
		if err != nil || mount == nil {
			closeAll(held)
			return nil, err
		}
		held = append(held, mount)
	}
	return held, nil
}

// handOver answers the mounts for a supervisor, whose they are from then on, and notes in the tickets by which descriptors
// it has them. Those of an earlier agent went with it.
func (d *Driver) handOver(t *launcher.Task, p *prepared) ([]*os.File, error) {
	d.mu.Lock()
	held, here := d.held[t.Dir]
	delete(d.held, t.Dir)
	d.mu.Unlock()
	if !here {
		var err error
		if held, err = holdAll(p); err != nil {
			return nil, err
		}
	}
	for i, ticket := range p.tickets() {
		if i < len(held) {
			ticket.Held = supervisor.FirstHeld + i
		}
	}
	return held, nil
}

// letGo closes what no supervisor came for.
func (d *Driver) letGo(t *launcher.Task) {
	d.mu.Lock()
	defer d.mu.Unlock()
	closeAll(d.held[t.Dir])
	delete(d.held, t.Dir)
}

func closeAll(files []*os.File) {
	for _, file := range files {
		file.Close()
	}
}
