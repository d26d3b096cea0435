//go:build linux

// Package layer turns one layer of an image, which is a stream that anybody may have made, into a directory, and puts
// layers together into a rootfs. It knows nothing of registries, digests that were promised, or caches.
//
// This file owns what is known of a layer once it is unpacked.
package layer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Limits holds the limits of one layer. A larger stream is refused at the limit.
type Limits struct {
	Bytes   int64 `json:"bytes"`   // of the files, as they claim to be, and of the stream
	Entries int64 `json:"entries"` // of the archive
	// FreeBytes and FreeFiles of the disk stay free, whatever the archive claims.
	FreeBytes int64 `json:"freeBytes,omitempty"`
	FreeFiles int64 `json:"freeFiles,omitempty"`
}

// Changes holds the changes of a layer in addition to its files. Paths are relative to the root, clean, and follow no
// link of the layer itself.
type Changes struct {
	DiffID  string `json:"diffID"` // the digest of the stream as it is after decompression
	Bytes   int64  `json:"bytes"`
	Entries int64  `json:"entries"`
	// Devices were left out: a container's devices are granted one by one, and a device is a whiteout to overlay.
	Devices int64 `json:"devices,omitempty"`
	// Whiteouts are gone from the layers below; of what is below an opaque directory nothing shows.
	Whiteouts []string `json:"whiteouts,omitempty"`
	Opaques   []string `json:"opaques,omitempty"`
	// Implied are directories that only exist for what is in them. Below, there may be a link of that name.
	Implied []string `json:"implied,omitempty"`
	// Links are hard links to files of the layers below.
	Links []Link `json:"links,omitempty"`
}

// Link is a hard link.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// A layer's directory holds two things.
const (
	filesDir    = "fs"
	changesFile = "changes.json"
)

// Read answers what Unpack left in a layer's directory.
func Read(dir string) (*Changes, error) {
	data, err := os.ReadFile(filepath.Join(dir, changesFile))
	if err != nil {
		return nil, err
	}
	changes := &Changes{}
	if err := json.Unmarshal(data, changes); err != nil {
		return nil, fmt.Errorf("%s of layer %s: %w", changesFile, filepath.Base(dir), err)
	}
	return changes, nil
}
