package container

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// This file owns what an image is to the driver: a root directory, and what it
// says about itself. Where it comes from is another's affair.

// HostImage is the machine's own root, read-only.
const HostImage = "host"

// Image is one that is ready to be used.
type Image struct {
	// Rootfs is a directory, or "host".
	Rootfs string `json:"rootfs"`
	// Layer: others use the same directory, so what a task writes goes to a layer of its own.
	Layer bool `json:"layer,omitempty"`
	// Owned: the agent made the directory, and no task may write to it or needs to reach it by itself.
	Owned bool `json:"owned,omitempty"`
	// What the image says where the job says nothing.
	Command []string `json:"command,omitempty"`
	Env     []string `json:"env,omitempty"`
	Workdir string   `json:"workdir,omitempty"`
}

// Images gets images ready.
type Images interface {
	// Prepare gets one ready, as long as it takes, and keeps it so for a holder: a
	// task's folder, which lives as long as the task and longer than the agent. The
	// same holder is given the same again. What it refuses names the field of the
	// job and the way out.
	Prepare(ctx context.Context, ref, holder string) (Image, error)
	// Release lets go of what the holder has; one that has nothing is no error.
	Release(holder string) error
}

// Local has the images that need no work: the machine's own root, and root
// directories that lie on the machine.
type Local struct{}

// Release has nothing to let go of.
func (Local) Release(string) error { return nil }

// Prepare finds a directory.
func (Local) Prepare(_ context.Context, ref, _ string) (Image, error) {
	if ref == HostImage {
		return Image{Rootfs: HostImage}, nil
	}
	if !filepath.IsAbs(ref) {
		return Image{}, fmt.Errorf("image: %q is neither host nor the absolute path of a root directory, which is all that this machine can run; unpack it into a directory on every machine and give its path", ref)
	}
	real, err := filepath.EvalSymlinks(ref)
	if err != nil {
		return Image{}, fmt.Errorf("image: %w; unpack it on every machine, or use `image: host`", err)
	}
	info, err := os.Stat(real)
	switch {
	case err != nil:
		return Image{}, fmt.Errorf("image: %w", err)
	case !info.IsDir():
		return Image{}, fmt.Errorf("image: %s is not a directory; unpack it into one and give its path", ref)
	case real == "/":
		return Image{}, fmt.Errorf("image: %s is the machine's own root; use `image: host`", ref)
	case strings.ContainsAny(real, `:\`):
		return Image{}, fmt.Errorf(`image: %s has : or \ in its path, which no layer can be put upon; give it another name`, ref)
	}
	return Image{Rootfs: real, Layer: true, Command: []string{"/bin/sh"}}, nil
}
