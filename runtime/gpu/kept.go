package gpu

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/file"
)

// This file owns the record of what was found, for the agent's next start. The driver takes seconds to answer, and
// until the devices are known nobody takes care of the machine's tasks: a killed agent must not be away that long. The
// record is valid within one boot, and only while the kernel shows exactly what it showed then; the watch sees any
// other change at its first look.

// Record is the file with what was found.
type Record struct {
	File   string
	BootID string
}

// keptVersion is the version of the record's format.
const keptVersion = 1

// kept is the record, and sealed the content of the file.
type (
	kept struct {
		Version int      `json:"version"`
		BootID  string   `json:"boot_id"`
		Shown   []string `json:"shown"` // by the kernel, when the devices were found
		Devices []device `json:"devices"`
		Notes   []string `json:"notes"`
	}
	device struct {
		Gpu    []byte   `json:"gpu"` // as on the wire
		Nodes  []string `json:"nodes"`
		NUMA   int      `json:"numa"`
		Parent string   `json:"parent,omitempty"`
		Fault  string   `json:"fault,omitempty"`
	}
	sealed struct {
		Sum  uint32          `json:"sum"`
		Kept json.RawMessage `json:"kept"`
	}
)

// maxKept is more than a record of a thousand devices takes.
const maxKept = 4 << 20

// FindAgain answers what an earlier start in this boot found, if the kernel still shows the same devices; else it looks
// everywhere and keeps what it finds. It reports whether it was the former.
func (f *Finder) FindAgain(ctx context.Context, r Record) (*Inventory, bool, error) {
	if inventory := f.recall(r); inventory != nil {
		return inventory, true, nil
	}
	inventory, err := f.Find(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := f.keep(r, inventory); err != nil {
		inventory.note("what was found cannot be kept, and is looked for again when the agent restarts: %v", err)
	}
	return inventory, false, nil
}

// Forget has the next start look everywhere.
func (r Record) Forget() error {
	if err := os.Remove(r.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kept GPUs: %w", err)
	}
	return nil
}

// recall answers nothing for a record that is of another boot or of other devices, or that is not whole.
func (f *Finder) recall(r Record) *Inventory {
	info, err := os.Stat(r.File)
	if err != nil || !info.Mode().IsRegular() || info.Size() > maxKept {
		return nil
	}
	data, err := os.ReadFile(r.File)
	if err != nil {
		return nil
	}
	var outer sealed
	var k kept
	if json.Unmarshal(data, &outer) != nil || crc32.ChecksumIEEE(outer.Kept) != outer.Sum ||
		json.Unmarshal(outer.Kept, &k) != nil {
		return nil
	}
	if k.Version != keptVersion || k.BootID != r.BootID || len(k.Devices) == 0 || len(k.Devices) > maxDevices ||
		!slices.Equal(k.Shown, f.shown()) {
		return nil
	}
	inventory := newInventory()
	inventory.Notes = k.Notes
	for _, d := range k.Devices {
		gpu := &messages.Gpu{}
		if proto.Unmarshal(d.Gpu, gpu) != nil || gpu.Id == "" || len(d.Nodes) == 0 || gpu.Declared {
			return nil
		}
		inventory.Devices = append(inventory.Devices, Device{
			Gpu: gpu, Nodes: d.Nodes, NUMA: d.NUMA, Parent: d.Parent, Fault: d.Fault,
		})
	}
	return inventory
}

// keep writes the record. What was found without the vendor's program is not worth it: it was quick, and lacks half.
func (f *Finder) keep(r Record, inventory *Inventory) error {
	if inventory.indirect || len(inventory.Devices) == 0 {
		return r.Forget()
	}
	k := kept{Version: keptVersion, BootID: r.BootID, Shown: f.shown(), Notes: inventory.Notes}
	for _, d := range inventory.Devices {
		k.Devices = append(k.Devices, device{
			Gpu: messages.Bytes(d.Gpu), Nodes: d.Nodes, NUMA: d.NUMA, Parent: d.Parent, Fault: d.Fault,
		})
	}
	inner, err := json.Marshal(k)
	if err != nil {
		return err
	}
	data, err := json.Marshal(sealed{Sum: crc32.ChecksumIEEE(inner), Kept: inner})
	if err != nil {
		return err
	}
	// Nothing is made durable: after a power loss it is another boot.
	return file.Replace(r.File, data)
}

// shown returns the kernel's view of the devices, without a driver: the bus addresses and parts of NVIDIA's, the device
// nodes of both vendors, and the driver's version.
func (f *Finder) shown() []string {
	var all []string
	for _, pattern := range []string{
		driverDir + "/*", "proc/driver/nvidia/capabilities/gpu*/mig/gi*/ci*", topologyDir + "/*", "dev/nvidia[0-9]*",
		"dev/dri/renderD*",
	} {
		found, _ := filepath.Glob(f.path(pattern)) // the patterns are ours, and right
		for _, path := range found {
			all = append(all, strings.TrimPrefix(path, f.root))
		}
	}
	return append(all, f.readText("sys/module/nvidia/version"))
}
