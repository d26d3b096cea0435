//go:build linux

package container

import (
	"context"

	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image"
)

// This file connects the driver with the image store.

// Stored provides the images of Local and of an image store.
type Stored struct {
	Local
	Store *image.Store
}

// Prepare fetches an image from the store unless it is a directory of the node.
func (s Stored) Prepare(ctx context.Context, ref, holder string, visitor hostpath.Visitor) (Image, error) {
	if ref == HostImage {
		return s.Local.Prepare(ctx, ref, holder, visitor)
	}
	got, err := s.Store.Prepare(ctx, ref, holder, visitor)
	if err != nil {
		return Image{}, err
	}
	if got.Named != nil {
		return folder(got.Named), nil
	}
	return Image{
		Rootfs: got.Rootfs, Layer: true, Owned: true,
		Command: got.Config.Command(), Env: got.Config.Env, Workdir: got.Config.WorkingDir,
	}, nil
}

// Release releases the holder's image in the store.
func (s Stored) Release(holder string) error { return s.Store.Release(holder) }
