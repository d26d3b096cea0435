// Package gpu finds and watches the GPUs of a node. It also lists the files and device nodes that a task needs for its
// GPUs. A node without GPUs is not an error. A driver that does not answer and leaves no other trace is an error. The
// package never guesses which device node belongs to which device. It omits a device with unknown nodes and adds a
// note.
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

// This file defines a device and the order of the sources.

// Device is one GPU that can be granted.
type Device struct {
	Gpu *messages.Gpu
	// Nodes lists the paths of the device's own nodes, without those that it shares with other devices.
	Nodes []string
	// NUMA is the nearest NUMA node; -1: unknown.
	NUMA int
	// Parent is the identity of the GPU of which the device is a part; empty: the device is a whole GPU.
	Parent string
	// Fault is the reason why the device is unfit for work; empty: none known.
	Fault string
	// Use is the activity of the device when it was found; nil: unknown.
	Use *Use
}

// Inventory holds the devices that were found.
type Inventory struct {
	Devices []Device
	// Notes are sentences for the operator about omitted devices and doubts, with the fix.
	Notes []string

	silent   bool              // nvidia-smi did not answer in time
	indirect bool              // NVIDIA's devices were read from /proc, which does not show parts
	seen     map[string]bool   // identities of NVIDIA's GPUs and parts, including those that cannot be granted
	lost     map[string]string // by bus address: the driver's text about a GPU that it no longer reaches
}

func newInventory() *Inventory {
	return &Inventory{seen: map[string]bool{}, lost: map[string]string{}}
}

func (i *Inventory) note(format string, arguments ...any) {
	i.Notes = append(i.Notes, fmt.Sprintf(format, arguments...))
}

// Gpus returns the devices in the form of the node's announcement.
func (i *Inventory) Gpus() []*messages.Gpu {
	var all []*messages.Gpu
	for _, d := range i.Devices {
		all = append(all, d.Gpu)
	}
	return all
}

// maxDevices bounds the devices of one node.
const maxDevices = messages.MaxMilliGPU / 1000

// Declared returns devices that the operator declares. They are always shown as declared. A task finds them by their
// numbers.
func Declared(n int, kind string) (*Inventory, error) {
	if n < 0 || n > maxDevices {
		return nil, fmt.Errorf("gpus: %d is out of range; use 0 to %d", n, maxDevices)
	}
	inventory := newInventory()
	for i := range n {
		inventory.Devices = append(inventory.Devices, Device{NUMA: -1, Gpu: &messages.Gpu{
			Id: fmt.Sprintf("declared-%d", i), Type: kind, Minor: int32(i), Declared: true,
		}})
	}
	return inventory, nil
}

// Options holds the settings of a finder.
type Options struct {
	// Root is the host's root directory; empty: "/".
	Root string
	// Command is NVIDIA's program; empty: nvidia-smi from PATH.
	Command string
	// Timeout bounds each run of the program; 0: 30 seconds.
	Timeout time.Duration
}

// defaultTimeout is long because without persistence mode the driver is loaded for each run. Eight devices then take
// several seconds.
const defaultTimeout = 30 * time.Second

// Finder finds devices. Only one goroutine at a time may use it.
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

// Find reads all sources, and determines which devices are connected by NVLink.
func (f *Finder) Find(ctx context.Context) (*Inventory, error) {
	inventory, err := f.read(ctx)
	if err != nil {
		return nil, err
	}
	f.findIslands(ctx, inventory)
	return inventory, nil
}

// read reads all sources once. If NVIDIA's driver cannot be asked at all, the inventory still has the devices of other
// vendors.
func (f *Finder) read(ctx context.Context) (*Inventory, error) {
	inventory := newInventory()
	f.readAMD(inventory)
	amd := inventory.Devices
	inventory.Devices = nil
	err := f.readNVIDIA(ctx, inventory)
	inventory.Devices = append(inventory.Devices, amd...)
	if over := len(inventory.Devices) - maxDevices; over > 0 {
		inventory.note("%d GPUs are omitted: the limit per node is %d", over, maxDevices)
		inventory.Devices = inventory.Devices[:maxDevices]
	}
	return inventory, err
}

func (f *Finder) path(parts ...string) string {
	return filepath.Join(append([]string{f.root}, parts...)...)
}

// readText returns the content of a small file, or an empty text.
func (f *Finder) readText(parts ...string) string {
	text, err := os.ReadFile(f.path(parts...))
	if err != nil || len(text) > 1<<16 {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// numaOf returns the NUMA node of a device on the bus.
func (f *Finder) numaOf(bus string) int {
	n, err := strconv.Atoi(f.readText("sys/bus/pci/devices", bus, "numa_node"))
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// busName returns a PCI address in the kernel's form: at least four digits of domain, in lower case. The driver uses
// eight digits and upper case.
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

// kindOf derives the GPU type for jobs from a product's name, such as "h100" from "NVIDIA H100 80GB HBM3". It returns
// the complete name if it finds no such word.
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

// knownText returns a field's text, or an empty text if the driver reports no value.
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

// mebibytes parses an amount such as "81559 MiB"; 0: unknown.
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
