//go:build linux

package container

import (
	"context"

	"github.com/yi-json/synapse/runtime/door"
	"github.com/yi-json/synapse/runtime/image"
)

// This file owns which images need work, and what of them the driver needs.

// Stored has what Local has, and what a store can get.
type Stored struct {
	Local
	Store *image.Store
}

// Prepare takes from the store all that does not lie on the machine as it is.
func (s Stored) Prepare(ctx context.Context, ref, holder string, visitor door.Visitor) (Image, error) {
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

// Release lets go of what the holder has of the store.
func (s Stored) Release(holder string) error { return s.Store.Release(holder) }
