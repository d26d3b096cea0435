package sim

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"math/bits"
	"path"
	"reflect"
	"strings"
)

// This file computes the trace hash: one number for everything that happened in a run, in order. Two runs with the same
// hash were the same run.

// trace is a running hash of two words. It is fast, and not secure against an attacker. sha256 only gives its last
// value a common form.
type trace struct {
	a, b  uint64
	types map[reflect.Type]uint64
	names map[string]reflect.Type
}

func newTrace() *trace {
	return &trace{
		a: 0x243f6a8885a308d3, b: 0x13198a2e03707344, types: map[reflect.Type]uint64{}, names: map[string]reflect.Type{},
	}
}

// word mixes in one number. Both halves of the product are kept, because with one half different runs could get the
// same hash.
func (t *trace) word(x uint64) {
	hi, lo := bits.Mul64(t.a^x, 0x9fb21c651e98df25)
	t.a, t.b = bits.RotateLeft64(t.b, 29)^lo, hi+t.b*0xd6e8feb86659fd93+x
}

// bytes mixes in a message between two processes.
func (t *trace) bytes(p []byte) {
	t.word(hashBytes(p))
}

// kind mixes in the type of a message. Its name is hashed once, because the name is part of the source and the address
// of the type is not. The package of the type does not matter, so moving a type changes no trace. No two types may have
// the same name.
func (t *trace) kind(message any) {
	typ := reflect.TypeOf(message)
	h, known := t.types[typ]
	if !known {
		name := nameOf(message)
		if other := t.names[name]; other != nil {
			panic(fmt.Sprintf("the trace cannot distinguish %v from %v: rename one of them", typ, other))
		}
		h, t.names[name] = hashString(name), typ
		t.types[typ] = h
	}
	t.word(h)
}

// nameOf returns the name of a message's type as if it were exported. It omits packages of this module. So neither a
// move nor an export changes a trace.
func nameOf(message any) string {
	typ, star := reflect.TypeOf(message), ""
	if typ.Kind() == reflect.Pointer {
		typ, star = typ.Elem(), "*"
	}
	if strings.HasPrefix(typ.PkgPath(), module) {
		name := typ.Name()
		return star + strings.ToUpper(name[:1]) + name[1:]
	}
	return star + typ.String()
}

// module is the prefix of this module's package paths.
var module = path.Dir(reflect.TypeFor[trace]().PkgPath()) + "/"

// sum returns the hash of everything so far.
func (t *trace) sum() string {
	var state [16]byte
	binary.LittleEndian.PutUint64(state[:8], t.a)
	binary.LittleEndian.PutUint64(state[8:], t.b)
	digest := sha256.Sum256(state[:])
	return hex.EncodeToString(digest[:])
}

// hashBytes takes eight bytes at a time.
func hashBytes(p []byte) uint64 {
	h := uint64(len(p)) * 0xa0761d6478bd642f
	for len(p) >= 8 {
		hi, lo := bits.Mul64(binary.LittleEndian.Uint64(p)^h, 0xe7037ed1a0b428db)
		h = hi ^ lo ^ bits.RotateLeft64(h, 17)
		p = p[8:]
	}
	for _, c := range p {
		h = (h ^ uint64(c)) * 0x100000001b3
	}
	return h ^ h>>32
}

func hashString(s string) uint64 { return hashBytes([]byte(s)) }
