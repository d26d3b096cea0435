//go:build linux

package container

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file defines an image for the driver: a root directory and its defaults. Another part of the agent fetches
// images.

// HostImage names the host's own root, read-only.
const HostImage = "host"

// Image is an image that is ready to be used.
type Image struct {
	// Rootfs is a directory of the agent, or "host"; empty: the job named the directory.
	Rootfs string `json:"rootfs"`
	// Named is the directory that the job named.
	Named *hostpath.Ticket `json:"named,omitempty"`
	// Layer requests a separate layer for the task's writes, because others use the same directory.
	Layer bool `json:"layer,omitempty"`
	// Owned reports that the agent made the directory. No task may write to it or needs to reach it directly.
	Owned bool `json:"owned,omitempty"`
	// Command, Env and Workdir are the image's defaults for settings that the job omits.
	Command []string `json:"command,omitempty"`
	Env     []string `json:"env,omitempty"`
	Workdir string   `json:"workdir,omitempty"`
}

// Images prepares images.
type Images interface {
	// Prepare prepares an image, may take any time, and keeps the image for a holder. The holder is a task's
	// folder, which exists as long as the task and longer than the agent. The same holder gets the same image
	// again. A refusal names the field of the job and the fix. A path of the node is opened with the visitor's
	// rights.
	Prepare(ctx context.Context, ref, holder string, visitor hostpath.Visitor) (Image, error)
	// Release releases the holder's image. A holder without an image is not an error.
	Release(holder string) error
}

// Local provides images that need no preparation: the host's own root, and root directories on the node.
type Local struct{}

// Release has nothing to release.
func (Local) Release(string) error { return nil }

// Prepare opens a directory.
func (Local) Prepare(_ context.Context, ref, _ string, visitor hostpath.Visitor) (Image, error) {
	if ref == HostImage {
		return Image{Rootfs: HostImage}, nil
	}
	if !filepath.IsAbs(ref) {
		return Image{}, fmt.Errorf("image: %q cannot be used, because this node supports only host and absolute paths of "+
			"root directories; unpack the image into a directory on every node and use its path", ref)
	}
	ticket, err := visitor.AskFolder(hostpath.Named(ref))
	if err != nil {
		return Image{}, fmt.Errorf("image: %w", err)
	}
	return folder(&ticket), nil
}

// folder returns the image of a root directory that a job named.
func folder(ticket *hostpath.Ticket) Image {
	return Image{Named: ticket, Layer: true, Command: []string{"/bin/sh"}}
}
