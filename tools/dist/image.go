package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	"github.com/opencontainers/image-spec/specs-go/v1"
)

// This file writes the image: an OCI layout in a tar for all architectures, with one layer that contains only the
// programs. It needs no container engine.

// layout holds the blobs of an image, by digest.
type layout struct{ blobs []file }

func (l *layout) add(kind string, body []byte) v1.Descriptor {
	sum := digest.FromBytes(body)
	l.blobs = append(l.blobs, file{path: "blobs/sha256/" + sum.Encoded(), mode: 0o644, body: body})
	return v1.Descriptor{MediaType: kind, Digest: sum, Size: int64(len(body))}
}

func (l *layout) addJSON(kind string, value any) (v1.Descriptor, error) {
	body, err := json.Marshal(value)
	return l.add(kind, body), err
}

// image returns the image, whose command is the scheduler. The agent must run on its host and not in a container.
func image(machines []build) (product, error) {
	l := &layout{}
	var manifests []v1.Descriptor
	for _, b := range machines {
		m, err := l.machine(b)
		if err != nil {
			return product{}, err
		}
		manifests = append(manifests, m)
	}
	r := machines[0].release
	all, err := l.addJSON(v1.MediaTypeImageIndex, v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: manifests,
	})
	if err != nil {
		return product{}, err
	}
	all.Annotations = map[string]string{v1.AnnotationRefName: r.version}
	index, err := json.Marshal(v1.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageIndex, Manifests: []v1.Descriptor{all},
	})
	if err != nil {
		return product{}, err
	}
	about, err := json.Marshal(v1.ImageLayout{Version: v1.ImageLayoutVersion})
	if err != nil {
		return product{}, err
	}
	files := append(l.blobs,
		file{path: v1.ImageIndexFile, mode: 0o644, body: index}, file{path: v1.ImageLayoutFile, mode: 0o644, body: about})
	return product{fmt.Sprintf("synapse_%s_image.tar", r.plain()), archived("", r.when, files)}, nil
}

// machine adds the image of one architecture.
func (l *layout) machine(b build) (v1.Descriptor, error) {
	var files []file
	for _, p := range b.programs {
		files = append(files, file{path: "usr/bin/" + p.name, mode: 0o755, body: p.body})
	}
	files = append(files, file{path: "usr/bin/synctl", mode: 0o777, link: "synapse-cli"})
	packed := squeezed(archived("", b.when, files))
	layer := l.add(v1.MediaTypeImageLayerGzip, packed)
	open, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return v1.Descriptor{}, err
	}
	whole, err := digest.FromReader(open)
	if err != nil {
		return v1.Descriptor{}, err
	}
	platform := v1.Platform{OS: b.os, Architecture: b.arch}
	config, err := l.addJSON(v1.MediaTypeImageConfig, v1.Image{
		Created: &b.when, Platform: platform, RootFS: v1.RootFS{Type: "layers", DiffIDs: []digest.Digest{whole}},
		Config: v1.ImageConfig{
			Entrypoint: []string{"/usr/bin/synapse-scheduler"}, Env: []string{"PATH=/usr/bin"},
			Labels: map[string]string{v1.AnnotationVersion: b.version, v1.AnnotationSource: homepage},
		},
	})
	if err != nil {
		return v1.Descriptor{}, err
	}
	d, err := l.addJSON(v1.MediaTypeImageManifest, v1.Manifest{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: v1.MediaTypeImageManifest, Config: config,
		Layers: []v1.Descriptor{layer},
	})
	d.Platform = &platform
	return d, err
}
