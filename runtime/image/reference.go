//go:build linux

package image

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// This file parses a job's `image` and determines its kind. It uses only the text.

// kind is the kind of an image's source.
type kind uint8

const (
	kindPath     kind = iota // a rootfs directory or an archive, which depends on the file
	kindLayout               // a directory in the OCI layout
	kindRegistry             // in a registry, by tag or digest
)

const (
	layoutPrefix = "oci:"
	hostImage    = "host"
	maxRefBytes  = 4096
)

// reference is a parsed `image`.
type reference struct {
	text     string
	kind     kind
	path     string         // of a rootfs, archive or layout
	tag      string         // in a layout; empty: the only image
	registry name.Reference // of a registry
}

// problem returns an error for users. It names the field of the job. The format should include the fix.
func problem(format string, args ...any) error {
	return fmt.Errorf("image: "+format, args...)
}

// parse parses an image's name.
func parse(text string) (reference, error) {
	ref := reference{text: text}
	switch {
	case text == "":
		return ref, problem("is empty; use an image of a registry, an archive, a directory on the node, or `host`")
	case len(text) > maxRefBytes || strings.ContainsAny(text, "\x00\n"):
		return ref, problem("%.60q is not an image name; use one line of at most %d bytes", text, maxRefBytes)
	case text == hostImage:
		return ref, problem("`host` is the host's own root and cannot be fetched")
	case strings.HasPrefix(text, layoutPrefix):
		return parseLayout(ref, strings.TrimPrefix(text, layoutPrefix))
	case strings.HasPrefix(text, "/"):
		ref.path = filepath.Clean(text)
		if ref.path == "/" {
			return ref, problem("%q is the host's own root; use `image: host`", text)
		}
		return ref, nil
	case strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"), strings.HasPrefix(text, "~"),
		strings.HasSuffix(text, ".tar"), strings.HasSuffix(text, ".sqsh"):
		return ref, problem("%q is a relative path; use an absolute path that begins with /",
			text)
	}
	if scheme, rest, found := strings.Cut(text, "://"); found {
		return ref, problem("%q begins with %s://; omit that: %s", text, scheme, rest)
	}
	parsed, err := name.ParseReference(text)
	if err != nil {
		return ref, problem("%q is not an image name: %v; use registry/name:tag, registry/name@sha256:…, or a path "+
			"that begins with /", text, err)
	}
	ref.kind, ref.registry = kindRegistry, parsed
	return ref, nil
}

func parseLayout(ref reference, rest string) (reference, error) {
	ref.kind, ref.path = kindLayout, rest
	if at := strings.LastIndexByte(rest, ':'); at > strings.LastIndexByte(rest, '/') {
		ref.path, ref.tag = rest[:at], rest[at+1:]
		if ref.tag == "" {
			return ref, problem("%q has a colon but no tag; omit the colon, or add the tag", ref.text)
		}
	}
	if !filepath.IsAbs(ref.path) {
		return ref, problem("%q has a relative directory; use an absolute one: oci:/…",
			ref.text)
	}
	ref.path = filepath.Clean(ref.path)
	return ref, nil
}

// digest returns the digest in a reference. Such a reference always means the same image.
func (r reference) digest() string {
	if exact, ok := r.registry.(name.Digest); ok {
		return exact.DigestStr()
	}
	return ""
}
