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

// This file keeps the found devices for the agent's next start. The driver takes seconds to answer, and the agent
// manages no tasks before the devices are known. A killed agent must return faster than that. The record is valid only
// in the same boot, and only if the kernel shows exactly the same devices as before. The watch detects any other change
// at its first look.

// Record names the file with the found devices.
type Record struct {
	File   string
	BootID string
}

// keptVersion is the version of the record's format.
const keptVersion = 1

// kept is the record. sealed is the content of the file.
type (
	kept struct {
		Version int      `json:"version"`
		BootID  string   `json:"boot_id"`
		Shown   []string `json:"shown"` // the kernel's view when the devices were found
		Devices []device `json:"devices"`
		Notes   []string `json:"notes"`
	}
	device struct {
		Gpu    []byte   `json:"gpu"` // in wire format
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

// maxKept exceeds the size of a record with a thousand devices.
const maxKept = 4 << 20

// FindAgain returns the devices of an earlier start in this boot if the kernel still shows the same devices. Otherwise
// it reads all sources and keeps the result. It reports whether it used the earlier result.
func (f *Finder) FindAgain(ctx context.Context, r Record) (*Inventory, bool, error) {
	if inventory := f.recall(r); inventory != nil {
		return inventory, true, nil
	}
	inventory, err := f.Find(ctx)
	if err != nil {
		return nil, false, err
	}
	if err := f.keep(r, inventory); err != nil {
		inventory.note("the list of GPUs cannot be saved, so the next start of the agent takes longer: %v", err)
	}
	return inventory, false, nil
}

// Forget makes the next start read all sources.
func (r Record) Forget() error {
	if err := os.Remove(r.File); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove the saved GPUs: %w", err)
	}
	return nil
}

// recall returns nil for a record of another boot or of other devices, or for an incomplete record.
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

// keep writes the record. It keeps no result without the vendor's program, because that was fast and incomplete.
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
	// No sync is needed, because a power failure causes another boot.
	return file.Replace(r.File, data)
}

// shown returns the kernel's view of the devices, without a driver: the bus addresses and parts of NVIDIA's devices,
// the device nodes of both vendors, and the driver's version.
func (f *Finder) shown() []string {
	var all []string
	for _, pattern := range []string{
		driverDir + "/*", "proc/driver/nvidia/capabilities/gpu*/mig/gi*/ci*", topologyDir + "/*", "dev/nvidia[0-9]*",
		"dev/dri/renderD*",
	} {
		found, _ := filepath.Glob(f.path(pattern)) // the patterns are constant and valid
		for _, path := range found {
			all = append(all, strings.TrimPrefix(path, f.root))
		}
	}
	return append(all, f.readText("sys/module/nvidia/version"))
}
