//go:build linux

package squash

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zlib"
	"github.com/klauspost/compress/zstd"
)

// This file decompresses blocks. SquashFS stores blocks of at most 1 MiB, and the expected size is known.

// expander decompresses a block of at most this size.
type expander func(from []byte, most int) ([]byte, error)

// expanderOf returns the function for a compressor of the superblock.
func expanderOf(id uint16) (expander, error) {
	switch id {
	case 1:
		return inflate, nil
	case 3:
		return lzo, nil
	case 5:
		return lz4, nil
	case 6:
		decoder, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(2*maxBlock),
			zstd.WithDecoderMaxWindow(2*maxBlock))
		if err != nil {
			return nil, err
		}
		return func(from []byte, most int) ([]byte, error) {
			out, err := decoder.DecodeAll(from, nil)
			return out, within(out, most, err)
		}, nil
	}
	name := map[uint16]string{2: "lzma", 4: "xz"}[id]
	if name == "" {
		name = fmt.Sprint("number ", id)
	}
	return nil, fmt.Errorf("the SquashFS image is compressed with %s, which is not supported; create it with "+
		"mksquashfs -comp zstd", name)
}

func within(out []byte, most int, err error) error {
	if err == nil && len(out) > most {
		err = errors.New("it is too large")
	}
	if err != nil {
		return damaged("a block cannot be decompressed: %v", err)
	}
	return nil
}

func inflate(from []byte, most int) ([]byte, error) {
	reader, err := zlib.NewReader(bytes.NewReader(from))
	if err != nil {
		return nil, within(nil, most, err)
	}
	out, err := io.ReadAll(io.LimitReader(reader, int64(most)+1))
	return out, within(out, most, err)
}

// coded reads the codes of LZ4 and LZO, and writes their literals and matches. After an error, it reads zeros and
// writes nothing.
type coded struct {
	from []byte
	out  []byte
	most int
	err  error
}

func (s *coded) fail() {
	if s.err == nil {
		s.err = damaged("a block cannot be decompressed")
	}
	s.from = nil
}

func (s *coded) byte() int {
	if len(s.from) == 0 {
		s.fail()
		return 0
	}
	b := s.from[0]
	s.from = s.from[1:]
	return int(b)
}

// long reads the rest of a length: bytes of the value more, and a last byte.
func (s *coded) long(more byte, each int) (n int) {
	for len(s.from) > 0 && s.from[0] == more && n <= s.most {
		n += each
		s.from = s.from[1:]
	}
	return n + s.byte()
}

func (s *coded) literals(n int) {
	if n > len(s.from) || n > s.most-len(s.out) {
		s.fail()
		return
	}
	s.out, s.from = append(s.out, s.from[:n]...), s.from[n:]
}

// match repeats bytes that were written distance bytes ago. Both parts can overlap.
func (s *coded) match(distance, n int) {
	if distance < 1 || distance > len(s.out) || n > s.most-len(s.out) {
		s.fail()
		return
	}
	for range n {
		s.out = append(s.out, s.out[len(s.out)-distance])
	}
}

// lz4 decompresses a block of LZ4.
func lz4(from []byte, most int) ([]byte, error) {
	s := &coded{from: from, most: most}
	for s.err == nil {
		token := s.byte()
		n := token >> 4
		if n == 15 {
			n += s.long(255, 255)
		}
		s.literals(n)
		if len(s.from) == 0 {
			break // the last sequence has no match
		}
		distance := s.byte() | s.byte()<<8
		if n = token&15 + 4; n == 19 {
			n += s.long(255, 255)
		}
		s.match(distance, n)
	}
	return s.out, s.err
}

// lzo decompresses a block of LZO1X.
func lzo(from []byte, most int) ([]byte, error) {
	s := &coded{from: from, most: most}
	before := 0 // literals after the last match; 4: a run of literals
	if len(from) > 0 && from[0] > 17 {
		n := s.byte() - 17
		s.literals(n)
		before = min(n, 4)
	}
	for s.err == nil {
		code := s.byte()
		if code < 16 && before == 0 {
			if code == 0 {
				code = 15 + s.long(0, 255)
			}
			s.literals(code + 3)
			before = 4
			continue
		}
		distance, n, after := s.lzoMatch(code, before)
		if distance == 0 {
			break
		}
		s.match(distance, n)
		s.literals(after)
		before = after
	}
	return s.out, s.err
}

// lzoMatch reads a match: its distance, its length, and the number of literals after it. The distance 0 is the end.
func (s *coded) lzoMatch(code, before int) (distance, n, after int) {
	pair := func() int { return s.byte() | s.byte()<<8 }
	switch {
	case code >= 64:
		return 1 + code>>2&7 + s.byte()<<3, code>>5 + 1, code & 3
	case code >= 32:
		if n = code&31 + 2; n == 2 {
			n += 31 + s.long(0, 255)
		}
		word := pair()
		return 1 + word>>2, n, word & 3
	case code >= 16:
		if n = code&7 + 2; n == 2 {
			n += 7 + s.long(0, 255)
		}
		word := pair()
		if distance = (code&8)<<11 + word>>2; distance == 0 {
			return 0, 0, 0
		}
		return distance + 0x4000, n, word & 3
	case before == 4:
		return 1 + 0x800 + code>>2 + s.byte()<<2, 3, code & 3
	}
	return 1 + code>>2 + s.byte()<<2, 2, code & 3
}
