//go:build linux

package image

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
)

// This file owns what a job's `image` may say, and which of the three kinds it is. It looks at nothing but the text.

// kind is where an image comes from.
type kind uint8

const (
	kindPath     kind = iota // a rootfs directory or an archive, depending on what is there
	kindLayout               // a directory in the OCI layout
	kindRegistry             // in a registry, by tag or digest
)

const (
	layoutPrefix = "oci:"
	hostImage    = "host"
	maxRefBytes  = 4096
)

// reference is one `image`, understood.
type reference struct {
	text     string
	kind     kind
	path     string         // of a rootfs, archive or layout
	tag      string         // in a layout; empty: the only image
	registry name.Reference // of a registry
}

// problem is an error that a user reads: it names the field of the job, and says the way out.
func problem(format string, args ...any) error {
	return fmt.Errorf("image: "+format, args...)
}

// parse understands an image's name.
func parse(text string) (reference, error) {
	ref := reference{text: text}
	switch {
	case text == "":
		return ref, problem("is empty; name an image of a registry, an archive, a directory on the worker, or `host`")
	case len(text) > maxRefBytes || strings.ContainsAny(text, "\x00\n"):
		return ref, problem("%.60q is not the name of an image; it has at most %d bytes in one line", text, maxRefBytes)
	case text == hostImage:
		return ref, problem("`host` is the machine's own root, which is not fetched")
	case strings.HasPrefix(text, layoutPrefix):
		return parseLayout(ref, strings.TrimPrefix(text, layoutPrefix))
	case strings.HasPrefix(text, "/"):
		ref.path = filepath.Clean(text)
		if ref.path == "/" {
			return ref, problem("%q is the machine's own root; say `image: host`", text)
		}
		return ref, nil
	case strings.HasPrefix(text, "./"), strings.HasPrefix(text, "../"), strings.HasPrefix(text, "~"),
		strings.HasSuffix(text, ".tar"):
		return ref, problem("%q is relative, and the worker does not know to what; give the whole path, beginning with /",
			text)
	}
	if scheme, rest, found := strings.Cut(text, "://"); found {
		return ref, problem("%q begins with %s://; leave that out: %s", text, scheme, rest)
	}
	parsed, err := name.ParseReference(text)
	if err != nil {
		return ref, problem("%q is not the name of an image: %v; say registry/name:tag, registry/name@sha256:…, or a path "+
			"beginning with /", text, err)
	}
	ref.kind, ref.registry = kindRegistry, parsed
	return ref, nil
}

func parseLayout(ref reference, rest string) (reference, error) {
	ref.kind, ref.path = kindLayout, rest
	if at := strings.LastIndexByte(rest, ':'); at > strings.LastIndexByte(rest, '/') {
		ref.path, ref.tag = rest[:at], rest[at+1:]
		if ref.tag == "" {
			return ref, problem("%q has a colon and no tag after it; leave the colon out, or name the tag", ref.text)
		}
	}
	if !filepath.IsAbs(ref.path) {
		return ref, problem("%q: the layout's directory is relative, and the worker does not know to what; say oci:/…",
			ref.text)
	}
	ref.path = filepath.Clean(ref.path)
	return ref, nil
}

// digest is the digest that a reference names itself; it always means the same image.
func (r reference) digest() string {
	if exact, ok := r.registry.(name.Digest); ok {
		return exact.DigestStr()
	}
	return ""
}
