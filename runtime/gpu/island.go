package gpu

import (
	"context"
	"strings"
)

// This file finds the NVLink islands of a node. An island is a set of devices that communicate without the bus.

// findIslands sets the island of each whole NVIDIA device. Without this information, the devices still work.
func (f *Finder) findIslands(ctx context.Context, inventory *Inventory) {
	var whole []int // the matrix counts every GPU, divided or not, in the order of the document
	for i, d := range inventory.Devices {
		if strings.HasPrefix(d.Gpu.Id, "GPU-") && strings.HasPrefix(d.Nodes[0], nvidiaNode) {
			whole = append(whole, i)
		}
	}
	if len(whole) < 2 || len(whole) != len(inventory.seen) || inventory.indirect {
		return
	}
	said, err := f.smi.ask(ctx, "topo", "-m")
	if err != nil || said.code != 0 {
		return
	}
	islands := parseMatrix(string(said.text))
	if len(islands) != len(whole) {
		return
	}
	for n, first := range islands {
		d := &inventory.Devices[whole[n]]
		if first >= 0 && d.Gpu.FabricDomain == "" {
			d.Gpu.FabricDomain = "nvlink-" + strings.TrimPrefix(inventory.Devices[whole[first]].Gpu.Id, "GPU-")
		}
	}
}

// parseMatrix returns for each GPU the first GPU of its island, or -1 if it has no link. A cell such as NV12 is a bond
// of twelve links.
func parseMatrix(text string) []int {
	text = strings.NewReplacer("\x1b[4m", "", "\x1b[0m", "").Replace(text) // the heading is underlined
	var first []int
	columns := -1
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case columns < 0:
			if words[0] != "GPU0" {
				continue
			}
			for columns = 0; columns < len(words) && isGPU(words[columns]); columns++ {
				first = append(first, -1)
			}
		case isGPU(words[0]):
			row, _ := smallNumber(words[0][len("GPU"):])
			if row >= columns || len(words) <= columns {
				return nil
			}
			for column, cell := range words[1 : columns+1] {
				if links, found := strings.CutPrefix(cell, "NV"); found && links != "" && strings.Trim(links, "0123456789") == "" {
					join(first, row, column)
				}
			}
		}
	}
	return first
}

func isGPU(word string) bool {
	_, ok := smallNumber(strings.TrimPrefix(word, "GPU"))
	return ok && strings.HasPrefix(word, "GPU")
}

// join merges two islands into one.
func join(first []int, a, b int) {
	if first[a] < 0 {
		first[a] = a
	}
	if first[b] < 0 {
		first[b] = b
	}
	from, to := max(first[a], first[b]), min(first[a], first[b])
	for i := range first {
		if first[i] == from {
			first[i] = to
		}
	}
}
