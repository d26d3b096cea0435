package gpu

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// This file builds a test node from files: a root with the kernel's files, and a program that replaces nvidia-smi.

// rig is such a test node.
type rig struct {
	t    *testing.T
	root string
	said string // a folder with the program's answers
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, root: t.TempDir(), said: t.TempDir()}
	r.program(`case "$*" in
"-q -x") answer=query ;;
"-L") answer=list ;;
"topo -m") answer=topo ;;
*) exit 2 ;;
esac
[ -e "$SAID/$answer" ] || exit 9
cat "$SAID/$answer"`)
	return r
}

// program makes a script the rig's nvidia-smi.
func (r *rig) program(script string) {
	r.t.Helper()
	text := "#!/bin/sh\nSAID=" + r.said + "\n" + script + "\n"
	// Always a new file, because a running one cannot be written.
	next := filepath.Join(r.said, "next")
	if err := os.WriteFile(next, []byte(text), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.Rename(next, r.smi()); err != nil {
		r.t.Fatal(err)
	}
}

func (r *rig) smi() string { return filepath.Join(r.said, "nvidia-smi") }

// says makes the program answer a query with a file of testdata, or with a text.
func (r *rig) says(question, answer string) *rig {
	r.t.Helper()
	if text, err := os.ReadFile(filepath.Join("testdata", answer)); err == nil {
		answer = string(text)
	} else if strings.HasSuffix(answer, ".xml") || strings.HasSuffix(answer, ".txt") {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(r.said, question), []byte(answer), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// has puts a file into the rig's root.
func (r *rig) has(path, text string) *rig {
	r.t.Helper()
	path = filepath.Join(r.root, path)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		r.t.Fatal(err)
	}
	return r
}

// met adds the driver's file in /proc for a GPU.
func (r *rig) met(bus, model, uuid, minor string) *rig {
	return r.has("proc/driver/nvidia/gpus/"+bus+"/information",
		"Model: \t\t "+model+"\nIRQ:   \t\t 77\nGPU UUID: \t "+uuid+"\nVideo BIOS: \t 96.00.61.00.01\nBus Type: \t PCIe\n"+
			"DMA Size: \t 52 bits\nDMA Mask: \t 0xfffffffffffff\nBus Location: \t "+bus+"\nDevice Minor: \t "+minor+
			"\nGPU Firmware: \t 535.183.06\n"+
			"GPU Excluded:\t No\n")
}

// finder returns a finder for the rig. Its timeout is long, because the test host may be busy.
func (r *rig) finder() *Finder {
	return New(Options{Root: r.root, Command: r.smi(), Timeout: time.Minute})
}

// find returns the result of a new finder.
func (r *rig) find() (*Inventory, error) { return r.finder().Find(context.Background()) }

// mustFind finds devices and fails the test on an error.
func (r *rig) mustFind() *Inventory {
	r.t.Helper()
	found, err := r.find()
	if err != nil {
		r.t.Fatal(err)
	}
	return found
}

// words returns the devices, one line each.
func words(devices []Device) []string {
	var all []string
	for _, d := range devices {
		g := d.Gpu
		line := []string{g.Id, g.Type, mebi(g.MemoryBytes), g.BusId, strings.Join(d.Nodes, "+")}
		if g.FabricDomain != "" {
			line = append(line, "in "+g.FabricDomain)
		}
		if d.Parent != "" {
			line = append(line, "of "+d.Parent)
		}
		if d.Fault != "" {
			line = append(line, "fault: "+d.Fault)
		}
		all = append(all, strings.Join(line, " "))
	}
	return all
}

func mebi(bytes int64) string {
	if bytes == 0 {
		return "?"
	}
	return strconv.FormatInt(bytes>>20, 10) + "MiB"
}

// expect compares lines.
func expect(t *testing.T, what string, got, want []string) {
	t.Helper()
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s:\n%s\nwant:\n%s", what, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// tells checks that there is one note for each part, and that each note contains its part.
func tells(t *testing.T, notes []string, parts ...string) {
	t.Helper()
	if len(notes) != len(parts) {
		t.Errorf("%d sentences, want %d: %q", len(notes), len(parts), notes)
	}
	for _, part := range parts {
		if !strings.Contains(strings.Join(notes, "\n"), part) {
			t.Errorf("nothing says %q: %q", part, notes)
		}
	}
}
