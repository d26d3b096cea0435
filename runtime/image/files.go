//go:build linux

package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/yi-json/synapse/runtime/hostpath"
)

// This file reads images from files on the node: directories in the OCI layout, and archives in the OCI layout or the
// format of docker. A user names the file, and the agent may read more files than that user. Therefore only content
// with the expected digest is used, and no error quotes the content of a file.

const (
	indexFile       = "index.json"
	dockerFile      = "manifest.json"
	blobsFolder     = "blobs"
	maxArchiveFiles = 100_000
)

// folder is a source in a directory of the OCI layout.
type folder struct {
	path    string
	visitor hostpath.Visitor
}

func (f folder) open(_ context.Context, wanted v1.Descriptor) (io.ReadCloser, error) {
	blob := filepath.Join(f.path, blobsFolder, wanted.Digest.Algorithm, wanted.Digest.Hex)
	file, err := f.visitor.File(hostpath.Named(blob))
	if err != nil {
		return nil, notThere(err)
	}
	return file, nil
}

func resolveLayout(ctx context.Context, ref reference, visitor hostpath.Visitor) (*found, error) {
	file, err := visitor.File(hostpath.Named(filepath.Join(ref.path, indexFile)))
	if err != nil {
		return nil, fmt.Errorf("%s has no OCI layout: %w; create one there on every node", ref.path, err)
	}
	defer file.Close()
	text, err := readDocument(file)
	if err != nil {
		return nil, err
	}
	return resolve(ctx, folder{ref.path, visitor}, text, types.OCIImageIndex, v1.Hash{}, ref.tag)
}

func readDocument(from io.Reader) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxDocument+1))
	if err == nil && len(text) > maxDocument {
		err = fmt.Errorf("a document of the image has more than %d bytes", maxDocument)
	}
	return text, err
}

// archive is a source in a tar file. The file is read once to find the position of each entry.
type archive struct {
	path  string
	file  *os.File
	parts map[string]archived
}

// archived is the position of a file in an archive. target is the target of a link.
type archived struct {
	at, size int64
	target   string
}

func (a *archive) Close() error { return a.file.Close() }

func openArchive(path string, visitor hostpath.Visitor) (*archive, error) {
	file, err := visitor.File(hostpath.Named(path))
	if err != nil {
		return nil, err
	}
	a := &archive{path: path, file: file, parts: map[string]archived{}}
	if err := a.list(); err != nil {
		file.Close()
		return nil, fmt.Errorf("%s is not an image archive: %w; create it with `docker save` or as an OCI archive, not "+
			"compressed", path, err)
	}
	return a, nil
}

func (a *archive) list() error {
	reader := tar.NewReader(a.file)
	for {
		header, err := reader.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return errors.New("the file is not a readable tar file")
		}
		if len(a.parts) >= maxArchiveFiles {
			return fmt.Errorf("the archive has more than %d files", maxArchiveFiles)
		}
		entry := archived{size: header.Size}
		name := path.Clean("/" + header.Name)[1:]
		switch header.Typeflag {
		case tar.TypeReg:
			// The reader reads no more than it needs, so the content begins at this offset.
			if entry.at, err = a.file.Seek(0, io.SeekCurrent); err != nil {
				return err
			}
		case tar.TypeSymlink:
			entry.target = path.Join(path.Dir(name), header.Linkname)
		case tar.TypeLink:
			entry.target = path.Clean("/" + header.Linkname)[1:]
		default:
			continue
		}
		a.parts[name] = entry
	}
}

// section opens a file of the archive. It follows one link, because old versions of Docker wrote a repeated layer as a
// link.
func (a *archive) section(name string) (*io.SectionReader, error) {
	name = path.Clean("/" + name)[1:]
	entry, known := a.parts[name]
	if known && entry.target != "" {
		entry, known = a.parts[entry.target]
	}
	if !known || entry.target != "" {
		return nil, fmt.Errorf("%.200q: %w", name, fs.ErrNotExist)
	}
	return io.NewSectionReader(a.file, entry.at, entry.size), nil
}

func (a *archive) open(_ context.Context, wanted v1.Descriptor) (io.ReadCloser, error) {
	section, err := a.section(path.Join(blobsFolder, wanted.Digest.Algorithm, wanted.Digest.Hex))
	if err != nil {
		return nil, notThere(err)
	}
	return io.NopCloser(section), nil
}

// resolve returns the archive's image. The archive must stay open while layers are read.
func (a *archive) resolve(ctx context.Context) (*found, error) {
	if section, err := a.section(indexFile); err == nil {
		text, err := readDocument(section)
		if err != nil {
			return nil, err
		}
		return resolve(ctx, a, text, types.OCIImageIndex, v1.Hash{}, "")
	}
	section, err := a.section(dockerFile)
	if err != nil {
		return nil, fmt.Errorf("the archive has neither %s nor %s; create it with `docker save` or as an OCI archive",
			indexFile, dockerFile)
	}
	text, err := readDocument(section)
	if err != nil {
		return nil, err
	}
	return a.resolveDocker(text)
}

// dockerImage is one image in docker's format.
type dockerImage struct {
	Config   string
	RepoTags []string
	Layers   []string
}

func (a *archive) resolveDocker(text []byte) (*found, error) {
	var images []dockerImage
	if json.Unmarshal(text, &images) != nil {
		return nil, fmt.Errorf("%s cannot be read", dockerFile)
	}
	if len(images) != 1 {
		return nil, fmt.Errorf("the archive has %d images; save one image per archive", len(images))
	}
	section, err := a.section(images[0].Config)
	if err != nil {
		return nil, notThere(err)
	}
	raw, err := readDocument(section)
	if err != nil {
		return nil, err
	}
	digest, _, err := v1.SHA256(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	// The config's name is its digest, and the config lists the layers.
	if named := strings.TrimPrefix(strings.TrimSuffix(path.Base(images[0].Config), ".json"),
		"sha256:"); len(named) == len(digest.Hex) && named != digest.Hex {
		return nil, fmt.Errorf("sha256:%s: %w", named, errTampered)
	}
	config, err := parseConfig(raw, len(images[0].Layers))
	if err != nil {
		return nil, err
	}
	image := &found{key: digest, config: configOf(config)}
	for i, name := range images[0].Layers {
		section, err := a.section(name)
		if err != nil {
			return nil, notThere(err)
		}
		image.layers = append(image.layers, blob{
			descriptor: v1.Descriptor{Size: section.Size()}, diffID: config.RootFS.DiffIDs[i],
			open: func(context.Context) (io.ReadCloser, error) {
				return io.NopCloser(io.NewSectionReader(section, 0, section.Size())), nil
			},
		})
	}
	return image, nil
}
