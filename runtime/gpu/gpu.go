// Package gpu finds the GPUs of a machine, watches them, and says which parts of the machine a task with some of them
// needs to see. A machine without any is no error; a driver that does not answer and leaves no other trace is one. It
// never guesses which device node belongs to which device: a device with unknown nodes is left out, and a note says so.
package gpu

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/messages"
)

// This file owns what a device is, and in which order the sources are read.

// Device is one GPU that can be given away.
type Device struct {
	Gpu *messages.Gpu
	// Nodes are the device's own nodes, by their paths on the machine, without those that it shares with others.
	Nodes []string
	// NUMA is the memory node next to it; -1: not known.
	NUMA int
	// Parent is the identity of the GPU that a part belongs to; empty: it is whole.
	Parent string
	// Fault is what makes it unfit for work; empty: nothing known.
	Fault string
}

// Inventory holds the devices that were found.
type Inventory struct {
	Devices []Device
	// Notes are sentences for the operator: what was left out or is in doubt, and the way out.
	Notes []string

	silent   bool              // nvidia-smi did not answer in time
	indirect bool              // NVIDIA's devices were read from /proc: their parts cannot be seen there
	seen     map[string]bool   // identities of NVIDIA's GPUs and parts, also of those that cannot be granted
	lost     map[string]string // by place on the bus: what the driver says of a GPU that it no longer reaches
}

func newInventory() *Inventory {
	return &Inventory{seen: map[string]bool{}, lost: map[string]string{}}
}

func (i *Inventory) note(format string, arguments ...any) {
	i.Notes = append(i.Notes, fmt.Sprintf(format, arguments...))
}

// Gpus are the devices as the machine announces them.
func (i *Inventory) Gpus() []*messages.Gpu {
	var all []*messages.Gpu
	for _, d := range i.Devices {
		all = append(all, d.Gpu)
	}
	return all
}

// maxDevices bounds the devices of one machine.
const maxDevices = messages.MaxMilliGPU / 1000

// Declared are devices that the operator declares. They are marked as such wherever they are shown, and a task finds
// them by their numbers.
func Declared(n int, kind string) (*Inventory, error) {
	if n < 0 || n > maxDevices {
		return nil, fmt.Errorf("gpus: %d is not a number of devices; give 0 to %d", n, maxDevices)
	}
	inventory := newInventory()
	for i := range n {
		inventory.Devices = append(inventory.Devices, Device{NUMA: -1, Gpu: &messages.Gpu{
			Id: fmt.Sprintf("declared-%d", i), Type: kind, Minor: int32(i), Declared: true,
		}})
	}
	return inventory, nil
}

// Options are where to look.
type Options struct {
	// Root is the machine's root directory; empty: "/".
	Root string
	// Command is NVIDIA's program; empty: nvidia-smi from PATH.
	Command string
	// Timeout bounds each run of it; 0: 30 seconds.
	Timeout time.Duration
}

// defaultTimeout is long, because without persistence mode the driver is loaded for each run, and then eight devices
// take several seconds.
const defaultTimeout = 30 * time.Second

// Finder looks for devices. It may be used by one goroutine at a time.
type Finder struct {
	root string
	smi  *program
}

// New makes a finder.
func New(o Options) *Finder {
	if o.Root == "" {
		o.Root = "/"
	}
	if o.Command == "" {
		o.Command = "nvidia-smi"
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	return &Finder{root: o.Root, smi: &program{name: o.Command, timeout: o.Timeout}}
}

// Find looks in all places, and asks which devices are linked to each other.
func (f *Finder) Find(ctx context.Context) (*Inventory, error) {
	inventory, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	f.findIslands(ctx, inventory)
	return inventory, nil
}

// read looks in all places once. Where NVIDIA's driver cannot be asked at all, the inventory still has other vendors'
// devices.
func (f *Finder) read(ctx context.Context) (*Inventory, error) {
	inventory := newInventory()
	f.readAMD(inventory)
	amd := inventory.Devices
	inventory.Devices = nil
	err := f.readNVIDIA(ctx, inventory)
	inventory.Devices = append(inventory.Devices, amd...)
	if over := len(inventory.Devices) - maxDevices; over > 0 {
		inventory.note("%d GPUs are left out: a machine may have %d", over, maxDevices)
		inventory.Devices = inventory.Devices[:maxDevices]
	}
	return inventory, err
}

func (f *Finder) path(parts ...string) string {
	return filepath.Join(append([]string{f.root}, parts...)...)
}

// readText returns the content of a small file, or nothing.
func (f *Finder) readText(parts ...string) string {
	text, err := os.ReadFile(f.path(parts...))
	if err != nil || len(text) > 1<<16 {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// numaOf is the memory node of a device on the bus.
func (f *Finder) numaOf(bus string) int {
	n, err := strconv.Atoi(f.readText("sys/bus/pci/devices", bus, "numa_node"))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// busName is a place on the PCI bus as the kernel writes it: four digits of
// domain at least, and small letters. The driver writes eight, and capitals.
func busName(text string) string {
	text = strings.ToLower(strings.TrimSpace(text))
	domain, rest, found := strings.Cut(text, ":")
	if !found || strings.Trim(text, "0123456789abcdef:.") != "" || len(text) > len("00000000:00:00.0") ||
		strings.Count(rest, ":") != 1 {
		return ""
	}
	for len(domain) > 4 && domain[0] == '0' {
		domain = domain[1:]
	}
	return domain + ":" + rest
}

// kindOf makes from a product's name the word by which jobs ask for it, such as "h100" from "NVIDIA H100 80GB HBM3". A
// name that it does not understand is kept in full.
func kindOf(product string) string {
	words := strings.FieldsFunc(strings.ToLower(product), func(r rune) bool {
		return r != '.' && (r < '0' || r > '9') && (r < 'a' || r > 'z')
	})
	for _, w := range words {
		if strings.ContainsAny(w, "0123456789") && w[0] >= 'a' && w[0] <= 'z' {
			return w[:min(len(w), messages.MaxNameBytes)]
		}
	}
	name := strings.Join(words, "-")
	return name[:min(len(name), messages.MaxNameBytes)]
}

// knownText is a field's text, or nothing where the driver says only that it does not know.
func knownText(field string) string {
	field = strings.TrimSpace(field)
	for _, none := range []string{"", "n/a", "unknown error", "err!", "not supported", "insufficient permissions"} {
		if strings.EqualFold(field, none) {
			return ""
		}
	}
	if strings.HasPrefix(field, "[") || len(field) > messages.MaxIDBytes { // [N/A], [Not Supported]
		return ""
	}
	return field
}

// mebibytes reads an amount such as "81559 MiB"; 0: not known.
func mebibytes(field string) int64 {
	number, unit, _ := strings.Cut(strings.TrimSpace(field), " ")
	n, err := strconv.ParseInt(number, 10, 64)
	// Old drivers call the same unit MB.
	if err != nil || n < 0 || n > messages.MaxMemoryBytes>>20 || unit != "MiB" && unit != "MB" {
		return 0
	}
	return n << 20
}

// maxMinor bounds a device's number.
const maxMinor = 1 << 20

func smallNumber(field string) (int, bool) {
	n, err := strconv.Atoi(strings.TrimSpace(field))
	return n, err == nil && n >= 0 && n <= maxMinor
}

func oneLine(text string) string {
	text = messages.AsText(strings.Join(strings.Fields(text), " "))
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + " …"
	}
	return text
}
