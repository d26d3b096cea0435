//go:build linux

package container

import (
	"fmt"
	"os"

	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/fault"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/private"
	"github.com/yi-json/synapse/runtime/supervisor"
)

// This file passes the paths of a job from Prepare to the task. The agent opens them as mounts, holds the mounts, and
// passes them to the task's supervisor.

// prepared holds the paths that Prepare opened for a job.
type prepared struct {
	Image
	Mounts  []hostpath.Ticket `json:"mounts,omitempty"` // the job's mounts, in its order
	Network private.Joined    `json:"network"`          // of a job with a private network
	IDs     *carapace.IDs     `json:"ids,omitempty"`    // of a job that is root in its container
}

// tickets returns the tickets of all mounts of paths that the job named, always in the same order.
func (p *prepared) tickets() []*hostpath.Ticket {
	var all []*hostpath.Ticket
	if p.Named != nil {
		all = append(all, p.Named)
	}
	for i := range p.Mounts {
		if p.Mounts[i].Node == "" {
			all = append(all, &p.Mounts[i])
		}
	}
	return all
}

// nodes returns the devices that the job named.
func (p *prepared) nodes() (nodes []string) {
	for i := range p.Mounts {
		if node := p.Mounts[i].Node; node != "" {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

func (p *prepared) close() {
	for _, ticket := range p.tickets() {
		ticket.Close()
	}
}

// hold makes the mounts while the paths are still open, and keeps them.
func (d *Driver) hold(t *launcher.Task, p *prepared) error {
	held, err := holdAll(p)
	if err != nil {
		return err
	}
	d.letGo(t) // from an earlier call
	d.mu.Lock()
	defer d.mu.Unlock()
	d.held[t.Dir] = held
	return nil
}

func holdAll(p *prepared) (held []*os.File, err error) {
	var image, machine *os.File
	if tickets := p.tickets(); p.IDs != nil && len(tickets) > 0 {
		if image, machine, err = p.IDs.Spaces(); err != nil {
			return nil, fault.OfMachine(fmt.Errorf("user: prepare root inside the container: %w", err))
		}
		defer closeAll([]*os.File{image, machine})
	}
	for _, ticket := range p.tickets() {
		as := machine
		if ticket == p.Named {
			as = image
		}
		mount, err := ticket.Hold(as)
		if err != nil || mount == nil {
			closeAll(held)
			return nil, p.field(ticket, err)
		}
		held = append(held, mount)
	}
	return held, nil
}

// field adds to an error the job's field of a ticket.
func (p *prepared) field(ticket *hostpath.Ticket, err error) error {
	if err == nil {
		return nil
	}
	if ticket == p.Named {
		return fmt.Errorf("image: %w", err)
	}
	for i := range p.Mounts {
		if ticket == &p.Mounts[i] {
			return fmt.Errorf("mounts[%d].source: %w", i, err)
		}
	}
	return err
}

// handOver returns the mounts for a supervisor, which owns them from then on. It notes the supervisor's descriptors in
// the tickets. The mounts of an earlier agent ended with that agent, so handOver makes them again.
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

// letGo closes mounts that no supervisor took.
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
