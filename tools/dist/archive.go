package main

import (
	"archive/tar"
	"bytes"
	"fmt"
	"path"
	"strings"
	"time"
)

// This file writes tar archives. The same files give the same bytes, whoever packs them and when.

// archived packs files and their folders below a folder. All of them belong to root and have one time.
func archived(below string, when time.Time, files []file) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	made := map[string]bool{".": true, "/": true, "": true}
	put := func(h *tar.Header, body []byte) {
		h.ModTime, h.Format, h.Size = when, tar.FormatGNU, int64(len(body))
		err := w.WriteHeader(h)
		if err == nil {
			_, err = w.Write(body)
		}
		if err != nil {
			// a buffer accepts all writes, and the headers are valid
			panic(fmt.Errorf("%s: %w", h.Name, err))
		}
	}
	for _, f := range files {
		name := path.Join(below, f.path)
		if strings.HasPrefix(below, "./") {
			name = "./" + name // as in the output of Debian's tools
		}
		for at, part := range name {
			if folder := name[:at]; part == '/' && !made[folder] {
				made[folder] = true
				put(&tar.Header{Typeflag: tar.TypeDir, Name: folder + "/", Mode: 0o755}, nil)
			}
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: f.mode}
		if f.link != "" {
			h.Typeflag, h.Linkname = tar.TypeSymlink, f.link
		}
		put(h, f.body)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// tarball returns an archive for systems without a package, to be unpacked at any place or at the root.
func tarball(r release, arch string, files []file) product {
	name := fmt.Sprintf("synapse_%s_linux_%s", r.plain(), arch)
	return product{name + ".tar.gz", squeezed(archived(name, r.when, files))}
}
