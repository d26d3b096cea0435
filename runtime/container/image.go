//go:build linux

package container

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file owns what an image is to the driver: a root directory, and what it
// says about itself. Another part of the agent decides where it comes from.

// HostImage is the machine's own root, read-only.
const HostImage = "host"

// Image is an image that is ready to be used.
type Image struct {
	// Rootfs is a directory of the agent, or "host"; empty: the job named the directory.
	Rootfs string `json:"rootfs"`
	// Named is the directory that the job named.
	Named *hostpath.Ticket `json:"named,omitempty"`
	// Layer: others use the same directory, so a task writes to a layer of its own.
	Layer bool `json:"layer,omitempty"`
	// Owned: the agent made the directory, and no task may write to it or needs to reach it directly.
	Owned bool `json:"owned,omitempty"`
	// What the image says where the job says nothing.
	Command []string `json:"command,omitempty"`
	Env     []string `json:"env,omitempty"`
	Workdir string   `json:"workdir,omitempty"`
}

// Images gets images ready.
type Images interface {
	// Prepare gets one ready, however long it takes, and keeps it so for a holder: a task's folder, which exists as
	// long as the task and longer than the agent. The same holder gets the same image again. What it refuses names
	// the field of the job and the way out. A path of the machine is opened with the visitor's rights.
	Prepare(ctx context.Context, ref, holder string, visitor hostpath.Visitor) (Image, error)
	// Release releases what the holder has; a holder without an image is no error.
	Release(holder string) error
}

// Local has the images that need no work: the machine's own root, and root directories on the machine.
type Local struct{}

// Release has nothing to release.
func (Local) Release(string) error { return nil }

// Prepare finds a directory.
func (Local) Prepare(_ context.Context, ref, _ string, visitor hostpath.Visitor) (Image, error) {
	if ref == HostImage {
		return Image{Rootfs: HostImage}, nil
	}
	if !filepath.IsAbs(ref) {
		return Image{}, fmt.Errorf("image: %q is neither host nor the absolute path of a root directory, which is all that "+
			"this machine can run; unpack it into a directory on every machine and give its path", ref)
	}
	ticket, err := visitor.AskFolder(hostpath.Named(ref))
	if err != nil {
		return Image{}, fmt.Errorf("image: %w", err)
	}
	return folder(&ticket), nil
}

// folder is a root directory that a job named.
func folder(ticket *hostpath.Ticket) Image {
	return Image{Named: ticket, Layer: true, Command: []string{"/bin/sh"}}
}
