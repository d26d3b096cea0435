package main

import (
	"compress/gzip"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/yi-json/synapse/sim"
	"github.com/yi-json/synapse/topology"
)

// This file repeats the experiment of FGD (ATC'23) on Alibaba's published cluster, whose pods request shares of GPUs.
// Pods arrive in random order until they have requested 130% of the GPUs. None ends, and a pod that does not fit is
// rejected. The result is the share of allocated GPUs when 100% have been requested. No time passes, so the experiment
// uses only topology.

const (
	openbNodes = "openb_node_list_gpu_node.csv.gz"
	openbPods  = "openb_pod_list_default.csv.gz"
	openbLoad  = 1.3 // total load that is offered
	openbRuns  = 10  // number of orders
)

// openb computes the share of allocated GPUs at a load of 1, in several orders. It returns nothing if the traces lack
// the folder.
func openb(traces string, out io.Writer) error {
	folder := filepath.Join(traces, "openb")
	nodes, err := columns(filepath.Join(folder, openbNodes), "cpu_milli", "memory_mib", "gpu")
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		return err
	}
	rows, err := columns(filepath.Join(folder, openbPods), "cpu_milli", "memory_mib", "num_gpu", "gpu_milli")
	if err != nil {
		return err
	}
	fmt.Fprint(out, "\n| openb | of the GPUs given away at a load of 1 | at 1.3 |\n|---|---|---|\n")
	var at, end []float64
	for seed := range uint64(openbRuns) {
		full, last := openbRun(nodes, podsOf(rows), seed+1)
		at, end = append(at, 100*full), append(end, 100*last)
	}
	fmt.Fprintf(out, "| %d orders | %s | %s |\n", openbRuns, percent(at), percent(end))
	return nil
}

// podsOf returns the request of each pod.
func podsOf(rows [][]int64) []topology.Resources {
	var pods []topology.Resources
	for _, r := range rows {
		gpu := r[2] * topology.WholeGPU
		if r[2] == 1 {
			gpu = r[3]
		}
		pods = append(pods, topology.Resources{MilliCPU: r[0], MemoryBytes: r[1] << 20, MilliGPU: gpu})
	}
	return pods
}

// openbRun offers pods in one order. It returns the share of allocated GPUs when all GPUs have been requested, and at
// the end.
func openbRun(nodes [][]int64, pods []topology.Resources, seed uint64) (full, last float64) {
	tree, all := topology.NewTree(nil), int64(0)
	for i, n := range nodes {
		m := topology.Machine{ID: sim.NodeID(i + 1), Total: topology.Resources{MilliCPU: n[0], MemoryBytes: n[1] << 20,
			MilliGPU: n[2] * topology.WholeGPU}}
		tree.Join(m, m.Idle())
		all += m.Total.MilliGPU
	}
	wanted, given := int64(0), int64(0)
	for _, p := range openbOrder(pods, all, seed) {
		if placement, refusal := topology.Place(tree, topology.Gang{Replicas: 1, Each: p}); refusal == nil {
			tree.Take(placement)
			given += p.MilliGPU
		}
		if was := wanted; was < all && was+p.MilliGPU >= all {
			full = float64(given) / float64(all)
		}
		wanted += p.MilliGPU
	}
	return full, float64(given) / float64(all)
}

// openbOrder returns all pods and further random ones up to the offered load, in an order drawn by the seed.
func openbOrder(pods []topology.Resources, all int64, seed uint64) []topology.Resources {
	order, wanted, drawn := slices.Clone(pods), int64(0), uint64(0)
	draw := func(n int) int {
		drawn++
		return int(sim.Chance(seed, drawn) * float64(n))
	}
	for _, p := range pods {
		wanted += p.MilliGPU
	}
	for float64(wanted) < openbLoad*float64(all) {
		p := pods[draw(len(pods))]
		order, wanted = append(order, p), wanted+p.MilliGPU
	}
	for i := len(order) - 1; i > 0; i-- {
		j := draw(i + 1)
		order[i], order[j] = order[j], order[i]
	}
	return order
}

// percent formats a mean and the spread of its runs.
func percent(of []float64) string {
	mean, spread := 0.0, 0.0
	for _, x := range of {
		mean += x / float64(len(of))
	}
	for _, x := range of {
		spread += (x - mean) * (x - mean)
	}
	return fmt.Sprintf("%.1f%% ± %.1f (%.1f to %.1f)", mean, math.Sqrt(spread/float64(max(len(of)-1, 1))), slices.Min(of),
		slices.Max(of))
}

// columns reads integers from a compressed table, by the names of its columns.
func columns(name string, wanted ...string) ([][]int64, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	plain, err := gzip.NewReader(file)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	lines, err := csv.NewReader(plain).ReadAll()
	if err != nil || len(lines) == 0 {
		return nil, fmt.Errorf("%s: not a table: %w", name, err)
	}
	var out [][]int64
	for n, line := range lines[1:] {
		row := make([]int64, len(wanted))
		for i, column := range wanted {
			at := slices.Index(lines[0], column)
			if at < 0 {
				return nil, fmt.Errorf("%s: column %s is missing", name, column)
			}
			if row[i], err = strconv.ParseInt(line[at], 10, 64); err != nil {
				return nil, fmt.Errorf("%s: line %d: %w", name, n+2, err)
			}
		}
		out = append(out, row)
	}
	return out, nil
}
