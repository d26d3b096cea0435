//go:build linux

package layer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// This file owns how a layer is packed. What it begins with tells, not what a manifest calls it: those are often wrong.

const (
	maxWindow   = 128 << 20 // of zstd, which the decoder must hold in memory
	readBuffer  = 256 << 10
	tarMagicAt  = 257
	tarHeader   = 512
	recommended = "pack layers as plain tar, gzip or zstd"
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	skipMagic = []byte{0x2a, 0x4d, 0x18} // of a zstd frame to be skipped, after its first byte
)

// decompress answers the plain archive.
func decompress(stream io.Reader) (io.ReadCloser, error) {
	buffered := bufio.NewReaderSize(stream, readBuffer)
	start, err := buffered.Peek(tarHeader)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	switch {
	case bytes.HasPrefix(start, gzipMagic):
		plain, err := gzip.NewReader(buffered)
		if err != nil {
			return nil, fmt.Errorf("the gzip stream cannot be read: %w", err)
		}
		return plain, nil
	case bytes.HasPrefix(start, zstdMagic) ||
		len(start) > 4 && start[0]&0xf0 == 0x50 && bytes.HasPrefix(start[1:], skipMagic):
		plain, err := zstd.NewReader(buffered, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("the zstd stream cannot be read: %w", err)
		}
		return plain.IOReadCloser(), nil
	case len(start) == 0, len(bytes.Trim(start, "\x00")) == 0, len(start) == tarHeader && looksLikeTar(start):
		return io.NopCloser(buffered), nil
	}
	return nil, fmt.Errorf("the layer is neither a tar archive nor one in gzip or zstd; %s", recommended)
}

// looksLikeTar knows the old format too, which has no magic: there the sum of the header must be right, which the
// reader checks. Here it is enough that the sum's field is made of what it can be made of.
func looksLikeTar(header []byte) bool {
	if bytes.HasPrefix(header[tarMagicAt:], []byte("ustar")) {
		return true
	}
	return len(bytes.Trim(header[148:156], "01234567 \x00")) == 0
}
