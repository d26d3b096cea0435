//go:build linux

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"runtime"
	"slices"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// This file follows the documents of a source to the list of layers: index, manifest, config. All content must have the
// expected length and digest, regardless of the source.

const (
	maxDocument = 8 << 20 // of an index, a manifest or a config
	maxLayers   = 512
	maxNesting  = 4 // of indexes

	annotationName = "org.opencontainers.image.ref.name"
)

// blobSource opens the blobs of a source.
type blobSource interface {
	// open opens a blob. Its content is not verified yet.
	open(ctx context.Context, blob v1.Descriptor) (io.ReadCloser, error)
}

// blob is one layer in its source.
type blob struct {
	descriptor v1.Descriptor // without a digest in an old archive, where only diffID is known
	diffID     v1.Hash
	open       func(ctx context.Context) (io.ReadCloser, error)
}

func (b blob) String() string {
	if b.descriptor.Digest.Hex != "" {
		return b.descriptor.Digest.String()
	}
	return b.diffID.String()
}

// found is an image whose parts are known.
type found struct {
	key     v1.Hash   // identifies the content: the digest of the manifest, or else of the config
	aliases []v1.Hash // other digests of the image, such as that of an index
	config  Config
	layers  []blob
}

// errTampered reports content that does not match its digest.
var errTampered = errors.New("the content does not match its digest: it was damaged or tampered with during " +
	"the transfer or at its source")

// document reads a whole blob and verifies it.
func document(ctx context.Context, from blobSource, wanted v1.Descriptor) ([]byte, error) {
	if wanted.Size < 0 || wanted.Size > maxDocument {
		return nil, fmt.Errorf("%s has %d bytes, but at most %d are supported", wanted.Digest, wanted.Size, maxDocument)
	}
	stream, err := from.open(ctx, wanted)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", wanted.Digest, err)
	}
	defer stream.Close()
	text, err := io.ReadAll(io.LimitReader(stream, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", wanted.Digest, err)
	}
	return text, verify(text, wanted.Digest)
}

func verify(text []byte, wanted v1.Hash) error {
	hasher, err := v1.Hasher(wanted.Algorithm)
	if err != nil {
		return fmt.Errorf("%s: %w", wanted, err)
	}
	hasher.Write(text)
	if fmt.Sprintf("%x", hasher.Sum(nil)) != wanted.Hex {
		return fmt.Errorf("%s: %w", wanted, errTampered)
	}
	return nil
}

// resolve follows a verified document to an image.
func resolve(ctx context.Context, from blobSource, text []byte, kind types.MediaType, digest v1.Hash,
	tag string) (*found, error) {
	var aliases []v1.Hash
	for range maxNesting {
		if !isIndex(text, kind) {
			image, err := manifest(ctx, from, text, digest)
			if err == nil {
				image.aliases = aliases
			}
			return image, err
		}
		index, err := v1.ParseIndexManifest(bytes.NewReader(text))
		if err != nil {
			return nil, fmt.Errorf("the index cannot be parsed: %w", err)
		}
		next, err := choose(index.Manifests, tag)
		if err != nil {
			return nil, err
		}
		if digest.Hex != "" {
			aliases = append(aliases, digest)
		}
		if text, err = document(ctx, from, next); err != nil {
			return nil, err
		}
		kind, digest, tag = next.MediaType, next.Digest, ""
	}
	return nil, fmt.Errorf("the image has more than %d nested indexes", maxNesting)
}

// isIndex reports whether a document is an index. If the type is missing, it inspects the document.
func isIndex(text []byte, kind types.MediaType) bool {
	if kind.IsIndex() || kind.IsImage() {
		return kind.IsIndex()
	}
	index, err := v1.ParseIndexManifest(bytes.NewReader(text))
	return err == nil && len(index.Manifests) > 0
}

// choose returns the image of an index for this node.
func choose(all []v1.Descriptor, tag string) (v1.Descriptor, error) {
	var offered, names []string
	var fitting []v1.Descriptor
	for _, one := range all {
		name := one.Annotations[annotationName]
		if name != "" {
			names = append(names, name)
		}
		if tag != "" && name != tag && !strings.HasSuffix(name, ":"+tag) {
			continue
		}
		if one.Platform == nil || one.Platform.OS == "" ||
			one.Platform.OS == "linux" && one.Platform.Architecture == runtime.GOARCH {
			fitting = append(fitting, one)
			continue
		}
		if one.Platform.OS != "unknown" { // Attestations are listed as images of an unknown platform.
			offered = append(offered, one.Platform.String())
		}
	}
	slices.Sort(names)
	switch {
	case len(fitting) == 1:
		return fitting[0], nil
	case len(fitting) > 1 && fitting[0].Platform != nil && fitting[0].Platform.OS != "":
		return fitting[0], nil // For variants of one architecture, the maker lists the preferred one first.
	case len(fitting) > 1:
		return v1.Descriptor{}, fmt.Errorf("the layout has %d images; name one by its tag: %s",
			len(fitting), strings.Join(names, ", "))
	case len(offered) > 0:
		return v1.Descriptor{}, fmt.Errorf("the index has no image for linux/%s, only for %s; build one, or select "+
			"other nodes with nodeSelector", runtime.GOARCH, strings.Join(offered, ", "))
	case tag != "":
		return v1.Descriptor{}, fmt.Errorf("the layout has no tag %q, only: %s", tag, strings.Join(names, ", "))
	}
	return v1.Descriptor{}, errors.New("the index has no image")
}

// manifest reads an image's manifest and config.
func manifest(ctx context.Context, from blobSource, text []byte, digest v1.Hash) (*found, error) {
	m, err := v1.ParseManifest(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("the manifest cannot be parsed: %w", err)
	}
	if m.Config.Digest.Hex == "" {
		return nil, errors.New("the manifest does not describe an image that a container can run")
	}
	raw, err := document(ctx, from, m.Config)
	if err != nil {
		return nil, err
	}
	config, err := parseConfig(raw, len(m.Layers))
	if err != nil {
		return nil, err
	}
	image := &found{key: digest, config: configOf(config)}
	for i, descriptor := range m.Layers {
		image.layers = append(image.layers, blob{
			descriptor: descriptor, diffID: config.RootFS.DiffIDs[i],
			open: func(ctx context.Context) (io.ReadCloser, error) { return from.open(ctx, descriptor) },
		})
	}
	return image, nil
}

func parseConfig(raw []byte, layers int) (*v1.ConfigFile, error) {
	config, err := v1.ParseConfigFile(bytes.NewReader(raw))
	switch {
	case err != nil:
		return nil, fmt.Errorf("the config cannot be parsed: %w", err)
	case len(config.RootFS.DiffIDs) != layers:
		return nil, fmt.Errorf("the image is not a container image: its manifest lists %d layers, its config %d",
			layers, len(config.RootFS.DiffIDs))
	case layers > maxLayers:
		return nil, fmt.Errorf("the image has %d layers, but at most %d are allowed", layers, maxLayers)
	case config.OS != "" && config.OS != "linux", config.Architecture != "" && config.Architecture != runtime.GOARCH:
		return nil, fmt.Errorf("the image is for %s/%s, but this node is linux/%s; build one for it, or select other nodes "+
			"with nodeSelector", config.OS, config.Architecture, runtime.GOARCH)
	}
	for _, id := range config.RootFS.DiffIDs {
		if id.Algorithm != "sha256" {
			return nil, fmt.Errorf("the layer %s is not identified by its sha256", id)
		}
	}
	return config, nil
}

// notThere returns the error for a blob that is missing in its source.
func notThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errors.New("the file is missing, but the manifest lists it; create the archive or layout again")
	}
	return err
}
