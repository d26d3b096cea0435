//go:build linux

// Package layer unpacks one layer of an image into a directory, and assembles layers into a rootfs. A layer is a stream
// from an untrusted source. The package knows nothing of registries, expected digests or caches.
//
// This file owns the record of an unpacked layer.
package layer

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
)

// Limits holds the limits of one layer. A larger stream is refused at the limit.
type Limits struct {
	Bytes   int64 `json:"bytes"`   // of the files, by their headers, and of the stream
	Entries int64 `json:"entries"` // of the archive
	// FreeBytes and FreeFiles of the disk stay free, regardless of the headers.
	FreeBytes int64 `json:"freeBytes,omitempty"`
	FreeFiles int64 `json:"freeFiles,omitempty"`
}

// Changes holds the changes of a layer in addition to its files. Paths are relative to the root, clean, and follow no
// link of the layer itself.
type Changes struct {
	DiffID  string `json:"diffID"` // the digest of the decompressed stream
	Bytes   int64  `json:"bytes"`
	Entries int64  `json:"entries"`
	// Devices counts omitted device nodes. A container's devices are granted one by one, and overlay treats some
	// device nodes as whiteouts.
	Devices int64 `json:"devices,omitempty"`
	// Whiteouts lists paths that are removed from lower layers. Opaques lists directories whose lower content is
	// hidden.
	Whiteouts []string `json:"whiteouts,omitempty"`
	Opaques   []string `json:"opaques,omitempty"`
	// Implied lists directories without an entry, which exist only for their content. A lower layer may have a link
	// of that name.
	Implied []string `json:"implied,omitempty"`
	// Links lists hard links to files of lower layers.
	Links []Link `json:"links,omitempty"`
}

// Link is a hard link.
type Link struct {
	Path   string `json:"path"`
	Target string `json:"target"`
}

// Entries of a layer's directory.
const (
	filesDir    = "fs"
	changesFile = "changes.json"
)

// Read returns the record that Unpack wrote into a layer's directory.
func Read(dir string) (*Changes, error) {
	data, err := os.ReadFile(filepath.Join(dir, changesFile))
	if err != nil {
		return nil, err
	}
	changes := &Changes{}
	if err := json.Unmarshal(data, changes); err != nil {
		return nil, fmt.Errorf("read %s of layer %s: %w", changesFile, filepath.Base(dir), err)
	}
	return changes, nil
}
