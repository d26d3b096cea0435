package gpu

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// This file turns the driver's output into devices.

// readNVIDIA runs the vendor's program, and reads /proc if that fails.
func (f *Finder) readNVIDIA(ctx context.Context, inventory *Inventory) error {
	doc, err := f.query(ctx)
	if doc != nil {
		inventory.lost = doc.lost
	}
	if err == nil {
		f.take(ctx, doc, inventory)
		return nil
	}
	inventory.silent = errors.Is(err, errSilent)
	inventory.indirect = true
	if found := f.readDriver(inventory); !found {
		if errors.Is(err, errAbsent) {
			return nil
		}
		return err
	}
	inventory.note("%v; the NVIDIA GPUs were read from /proc/driver/nvidia instead: their memory, parts and "+
		"health are unknown", err)
	return nil
}

// query runs nvidia-smi once. It accepts a document with any exit code, because a code other than zero may be about a
// single GPU.
func (f *Finder) query(ctx context.Context) (*document, error) {
	said, err := f.smi.ask(ctx, "-q", "-x")
	if err != nil {
		return nil, err
	}
	doc, err := parseDocument(said.text)
	if err == nil {
		doc.complaints(said.trouble)
		return doc, nil
	}
	text := string(said.text) + " " + string(said.trouble)
	if errors.Is(err, errNoDocument) {
		doc.complaints(said.trouble)
		if strings.Contains(strings.ToLower(text), "no devices were found") ||
			said.code == 0 && strings.TrimSpace(text) == "" {
			return doc, nil
		}
		return doc, fmt.Errorf("%s: exit %d: %s", f.smi.name, said.code, oneLine(text))
	}
	return doc, fmt.Errorf("%s: %w", f.smi.name, err)
}

// take makes devices from a document.
func (f *Finder) take(ctx context.Context, doc *document, inventory *Inventory) {
	if n, ok := smallNumber(doc.attached); ok && n != len(doc.gpus) {
		inventory.note("nvidia-smi counts %d GPUs but describes %d; search for `NVRM` in the kernel log", n, len(doc.gpus))
	}
	for _, bus := range slices.Sorted(maps.Keys(doc.lost)) {
		inventory.note("the GPU at %s is lost: %s", bus, doc.lost[bus])
	}
	same := map[string]int{}
	for i := range doc.gpus {
		same[doc.gpus[i].uuid]++
	}
	var listing map[string]partIDs
	for i := range doc.gpus {
		g := &doc.gpus[i]
		if !isID(g.uuid, "GPU-") || same[g.uuid] > 1 {
			inventory.note("the GPU at %s is omitted: the driver reports no unique identity (%s)",
				cmp.Or(g.bus, "an unknown address"), cmp.Or(oneLine(g.uuid), "none"))
			continue
		}
		inventory.seen[g.uuid] = true
		minor, known := f.minorOf(g)
		if !known {
			inventory.note("GPU %s is omitted: its number below /dev is unknown; give the agent's user access to the "+
				"driver, or declare the devices", g.uuid)
			continue
		}
		if why := g.warning(); why != "" {
			inventory.note("GPU %s: %s", g.uuid, why)
		}
		whole := f.wholeDevice(g, minor)
		whole.Fault = cmp.Or(whole.Fault, doc.lost[g.bus])
		if !strings.EqualFold(g.mig, "enabled") {
			inventory.Devices = append(inventory.Devices, whole)
			continue
		}
		if listing == nil {
			listing = f.list(ctx)
		}
		f.takeParts(g, whole, listing, inventory)
	}
}

func (f *Finder) wholeDevice(g *reported, minor int) Device {
	return Device{
		Gpu: &messages.Gpu{
			Id: g.uuid, Type: kindOf(cmp.Or(knownText(g.name), "gpu")), MemoryBytes: mebibytes(g.memory),
			BusId: g.bus, Minor: int32(minor), FabricDomain: clusterOf(g),
		},
		Nodes: []string{"/dev/nvidia" + strconv.Itoa(minor)}, NUMA: f.numaOf(g.bus), Fault: g.fault(), Use: g.use(),
	}
}

// clusterOf returns the NVLink domain over several nodes, if there is one.
func clusterOf(g *reported) string {
	cluster := knownText(g.cluster)
	if strings.Trim(cluster, "0-") == "" {
		return ""
	}
	domain := cluster + "." + knownText(g.clique)
	return domain[:min(len(domain), messages.MaxIDBytes)]
}

// minorOf returns the number of the GPU's device node. It differs from the GPU's index, which follows the bus. The
// node's number follows the order in which the driver found the devices.
func (f *Finder) minorOf(g *reported) (int, bool) {
	if n, ok := smallNumber(g.minor); ok {
		return n, true
	}
	if g.bus == "" {
		return 0, false
	}
	return smallNumber(f.driverEntry(g.bus)["Device Minor"])
}

// isID reports whether the driver's identity is valid: a prefix, then letters, digits and dashes. Drivers before 470
// name parts by a path, which is not valid.
func isID(id, prefix string) bool {
	const allowed = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-"
	return strings.HasPrefix(id, prefix) && len(id) > len(prefix) && len(id) <= messages.MaxIDBytes &&
		strings.Trim(id, allowed) == ""
}

// partIDs holds the parts of one GPU by their index, as `nvidia-smi -L` names them.
type partIDs map[string]struct{ profile, uuid string }

// list requests the names of the parts, which most drivers omit in their document.
func (f *Finder) list(ctx context.Context) map[string]partIDs {
	said, err := f.smi.ask(ctx, "-L")
	if err != nil {
		return map[string]partIDs{}
	}
	return parseListing(string(said.text))
}

// parseListing parses lines such as
//
//	GPU 0: NVIDIA A100-SXM4-80GB (UUID: GPU-…)
//	  MIG 3g.40gb     Device  0: (UUID: MIG-…)
func parseListing(text string) map[string]partIDs {
	all := map[string]partIDs{}
	gpu := ""
	for line := range strings.Lines(text) {
		head, rest, found := strings.Cut(line, "(UUID: ")
		uuid, _, closed := strings.Cut(rest, ")")
		words := strings.Fields(head)
		switch {
		case !found || !closed || len(words) < 2 || len(all) > maxReported:
		case words[0] == "GPU":
			gpu = uuid
			all[gpu] = partIDs{}
		case words[0] == "MIG" && len(words) == 4 && words[2] == "Device" && gpu != "" && isID(uuid, "MIG-"):
			all[gpu][strings.TrimSuffix(words[3], ":")] = struct{ profile, uuid string }{words[1], uuid}
		}
	}
	return all
}

// takeParts makes a device from each part of a divided GPU. The whole GPU is never granted, because a task with it
// could open its parts.
func (f *Finder) takeParts(g *reported, whole Device, listing map[string]partIDs, inventory *Inventory) {
	if len(g.parts) == 0 {
		inventory.note("GPU %s is omitted: it is divided (MIG) and has no parts; create parts with `nvidia-smi mig`, or "+
			"turn MIG off", g.uuid)
	}
	for _, p := range g.parts {
		name := listing[g.uuid][p.index]
		uuid := cmp.Or(knownText(p.uuid), name.uuid)
		if !isID(uuid, "MIG-") || inventory.seen[uuid] {
			inventory.note("part %s of GPU %s is omitted: `nvidia-smi -L` shows no unique identity",
				cmp.Or(oneLine(p.index), "?"), g.uuid)
			continue
		}
		inventory.seen[uuid] = true
		nodes, err := f.capabilities(whole.Gpu.Minor, p)
		if err != nil {
			inventory.note("part %s is omitted: %v", uuid, err)
			continue
		}
		kind := whole.Gpu.Type + "-mig"
		if name.profile != "" {
			kind += "-" + strings.ToLower(name.profile)
		}
		part := Device{
			Gpu: &messages.Gpu{
				Id: uuid, Type: kind[:min(len(kind), messages.MaxNameBytes)], MemoryBytes: mebibytes(p.memory),
				BusId: whole.Gpu.BusId, Minor: whole.Gpu.Minor,
			},
			Nodes: append(append([]string{}, whole.Nodes...), nodes...), NUMA: whole.NUMA, Parent: g.uuid, Fault: whole.Fault,
		}
		inventory.Devices = append(inventory.Devices, part)
	}
}

// capabilities returns the device files that give access to a part, which is a MIG instance: one file for the GPU
// instance, and one for its compute instance.
func (f *Finder) capabilities(gpu int32, p reportedPart) ([]string, error) {
	instance, known := smallNumber(p.instance)
	compute, both := smallNumber(p.compute)
	if !known || !both {
		return nil, errors.New("the driver reports no instances for it")
	}
	of := fmt.Sprintf("/proc/driver/nvidia/capabilities/gpu%d/mig/gi%d", gpu, instance)
	var nodes []string
	for _, file := range []string{path.Join(of, "access"), path.Join(of, fmt.Sprintf("ci%d", compute), "access")} {
		minor, known := smallNumber(fields(f.readText(file))["DeviceFileMinor"])
		if !known {
			return nil, fmt.Errorf("%s does not name its device node; parts need driver 470 or newer", file)
		}
		nodes = append(nodes, "/dev/nvidia-caps/nvidia-cap"+strconv.Itoa(minor))
	}
	return nodes, nil
}

// fields parses lines of "Name: value".
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, found := strings.Cut(line, ":"); found {
			all[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	return all
}

// driverDir is the folder in which the driver always shows its GPUs.
const driverDir = "proc/driver/nvidia/gpus"

func (f *Finder) driverEntry(bus string) map[string]string {
	return fields(f.readText(driverDir, bus, "information"))
}

// readDriver makes devices from the driver's files in /proc, and reports whether there is any GPU. The driver wrote
// these files when it found the device, so they are readable even while it hangs.
func (f *Finder) readDriver(inventory *Inventory) bool {
	entries, err := os.ReadDir(f.path(driverDir))
	if err != nil || len(entries) == 0 {
		return false
	}
	for _, entry := range entries[:min(len(entries), maxReported)] {
		told := f.driverEntry(entry.Name())
		uuid, bus := told["GPU UUID"], busName(cmp.Or(told["Bus Location"], entry.Name()))
		minor, known := smallNumber(told["Device Minor"])
		switch {
		case strings.EqualFold(told["GPU Excluded"], "yes") || strings.EqualFold(told["Blacklisted"], "yes"):
			continue // the operator excluded it from the driver
		case !isID(uuid, "GPU-") || !known || inventory.seen[uuid]: // the driver shows question marks until the GPU was used
			inventory.note("the GPU at %s is omitted: the driver does not report its identity and number", bus)
			continue
		}
		inventory.seen[uuid] = true
		if parts, err := os.ReadDir(f.path("proc/driver/nvidia/capabilities", "gpu"+strconv.Itoa(minor),
			"mig")); err == nil && hasInstances(parts) {
			inventory.note("GPU %s is omitted: it is divided (MIG), and only nvidia-smi can list its parts", uuid)
			continue
		}
		d := f.wholeDevice(&reported{uuid: uuid, name: told["Model"], bus: bus}, minor)
		d.Fault = inventory.lost[bus]
		inventory.Devices = append(inventory.Devices, d)
	}
	return true
}

func hasInstances(entries []os.DirEntry) bool {
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "gi") {
			return true
		}
	}
	return false
}
