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

// This file decompresses a layer. It detects the format from the first bytes, because manifests often name it wrongly.

const (
	maxWindow   = 128 << 20 // of zstd; the decoder keeps the window in memory
	readBuffer  = 256 << 10
	tarMagicAt  = 257
	tarHeader   = 512
	recommended = "pack layers as plain tar, gzip or zstd"
)

var (
	gzipMagic = []byte{0x1f, 0x8b}
	zstdMagic = []byte{0x28, 0xb5, 0x2f, 0xfd}
	skipMagic = []byte{0x2a, 0x4d, 0x18} // of a skippable zstd frame, after its first byte
)

// decompress returns the plain archive.
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
			return nil, fmt.Errorf("the gzip stream is invalid: %w", err)
		}
		return plain, nil
	case bytes.HasPrefix(start, zstdMagic) ||
		len(start) > 4 && start[0]&0xf0 == 0x50 && bytes.HasPrefix(start[1:], skipMagic):
		plain, err := zstd.NewReader(buffered, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, fmt.Errorf("the zstd stream is invalid: %w", err)
		}
		return plain.IOReadCloser(), nil
	case len(start) == 0, len(bytes.Trim(start, "\x00")) == 0, len(start) == tarHeader && looksLikeTar(start):
		return io.NopCloser(buffered), nil
	}
	return nil, fmt.Errorf("the layer is not a tar archive, plain or in gzip or zstd; %s", recommended)
}

// looksLikeTar also detects the old format, which has no magic number. There, the header must have a valid checksum,
// which the tar reader verifies later. This function only checks that the checksum field has permitted characters.
func looksLikeTar(header []byte) bool {
	if bytes.HasPrefix(header[tarMagicAt:], []byte("ustar")) {
		return true
	}
	return len(bytes.Trim(header[148:156], "01234567 \x00")) == 0
}
