package record

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// This file describes the nodes on which a record is replayed.

// Cluster describes nodes in racks. The nodes are numbered rack by rack.
type Cluster struct {
	Racks []int // nodes in each rack
	GPUs  []int // GPUs of each node
}

// NewCluster returns a cluster of equal nodes.
func NewCluster(racks []int, gpus int) Cluster {
	c := Cluster{Racks: racks}
	for _, machines := range racks {
		for range machines {
			c.GPUs = append(c.GPUs, gpus)
		}
	}
	return c
}

// Sum returns the number of GPUs.
func (c Cluster) Sum() int {
	sum := 0
	for _, n := range c.GPUs {
		sum += n
	}
	return sum
}

// Largest returns the GPUs of the largest node.
func (c Cluster) Largest() int { return slices.Max(c.GPUs) }

// Alike reports whether all nodes have the same number of GPUs.
func (c Cluster) Alike() bool { return slices.Min(c.GPUs) == slices.Max(c.GPUs) }

// Limits of the simulation.
const (
	maxMachines = 100_000
	// MaxGPUs is the maximum number of GPUs of a simulated node.
	MaxGPUs = 64
)

// Check returns an error for a cluster that cannot be simulated.
func (c Cluster) Check() error {
	standing := 0
	for _, n := range c.Racks {
		standing += n
	}
	switch {
	case len(c.GPUs) == 0:
		return errors.New("the cluster has no GPUs: name at least one node with one GPU")
	case standing != len(c.GPUs):
		return fmt.Errorf("the racks hold %d nodes, but the cluster has %d: correct the racks", standing, len(c.GPUs))
	case len(c.GPUs) > maxMachines:
		return fmt.Errorf("%d nodes are too many: at most %d can be simulated", len(c.GPUs), maxMachines)
	}
	for i, n := range c.GPUs {
		if n < 1 || n > MaxGPUs {
			return fmt.Errorf("node %d has %d GPUs: use 1 to %d", i+1, n, MaxGPUs)
		}
	}
	return nil
}

// ReadCluster reads nodes from the output of `get nodes -o json`, or from rows with the columns nodes and gpus, and
// optionally racks. It also returns the number of nodes that it skipped because they have no GPU.
func ReadCluster(from io.Reader) (c Cluster, without int, err error) {
	in := bufio.NewReader(from)
	if text, _ := in.Peek(peekBytes); strings.HasPrefix(strings.TrimLeft(string(text), " \t\r\n"), "{") {
		c, without, err = readNodes(in)
	} else {
		c, err = readMachines(in)
	}
	if err != nil {
		return c, without, err
	}
	return c, without, c.Check()
}

// perRack is the default number of nodes in a rack.
const perRack = 8

// InRacks distributes nodes over racks and fills the first racks first. With 0 racks, each rack gets eight nodes.
func InRacks(machines, racks int) []int {
	if racks == 0 {
		racks = (machines + perRack - 1) / perRack
	}
	all := make([]int, racks)
	for i := range all {
		all[i] = machines / racks
		if i < machines%racks {
			all[i]++
		}
	}
	return all
}

func readMachines(from io.Reader) (Cluster, error) {
	var c Cluster
	var wrong error
	err := eachRow(from, []string{"nodes", "gpus"}, func(r csvRow) {
		whole := func(column string) int {
			n, err := strconv.Atoi(cmp.Or(r.get(column), "0"))
			if err != nil || n < 0 || n > maxMachines {
				wrong = cmp.Or(wrong, fmt.Errorf("line %d: %s: %q is not a valid number", r.line, column, r.get(column)))
			}
			return n
		}
		machines, gpus, racks := whole("nodes"), whole("gpus"), whole("racks")
		if racks > machines || machines == 0 {
			wrong = cmp.Or(wrong, fmt.Errorf("line %d: %d nodes cannot fill %d racks: use at most one rack per node",
				r.line, machines, racks))
		}
		if wrong == nil {
			more := NewCluster(InRacks(machines, racks), gpus)
			c.Racks, c.GPUs = append(c.Racks, more.Racks...), append(c.GPUs, more.GPUs...)
		}
	})
	return c, cmp.Or(err, wrong)
}

// readNodes reads the nodes of a running cluster. Nodes of one place are in one rack.
func readNodes(from io.Reader) (c Cluster, without int, err error) {
	type node struct {
		Metadata struct {
			ID       string
			Topology []struct{ Domain string }
			Place    json.RawMessage // from an earlier version
		}
		Status struct{ Total struct{ MilliGPU int } }
	}
	var list struct{ Items []node }
	if err := json.NewDecoder(from).Decode(&list); err != nil {
		return c, 0, fmt.Errorf("not the output of `get nodes -o json`: %w", err)
	}
	place := func(n node) string {
		var names []string
		for _, p := range n.Metadata.Topology {
			names = append(names, p.Domain)
		}
		return strings.Join(names, "/")
	}
	for _, n := range list.Items {
		if n.Metadata.Place != nil {
			return c, 0, fmt.Errorf("node %s has metadata.place: use metadata.topology, with domain instead of name",
				n.Metadata.ID)
		}
	}
	slices.SortFunc(list.Items, func(a, b node) int {
		return cmp.Or(cmp.Compare(place(a), place(b)), cmp.Compare(a.Metadata.ID, b.Metadata.ID))
	})
	last := ""
	for _, n := range list.Items {
		gpus := n.Status.Total.MilliGPU / 1000
		if gpus == 0 {
			without++
			continue
		}
		if at := place(n); len(c.Racks) == 0 || at != last {
			last, c.Racks = at, append(c.Racks, 0)
		}
		c.Racks[len(c.Racks)-1]++
		c.GPUs = append(c.GPUs, gpus)
	}
	return c, without, nil
}
