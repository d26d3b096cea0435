//go:build linux

package carapace

import "testing"

// TestIDsPlain checks the mapping of host directories. Every id maps to itself, except that of the container's root.
// The ids of the container map to nothing.
func TestIDsPlain(t *testing.T) {
	const first = 400_000_000
	ids := &IDs{First: first, UID: 1, GID: 1}
	for _, root := range []uint32{1, 65534, 2_000_007, first - 1, first + IDsLen, noID - 1} {
		find := func(id uint64) (outside uint64, times int) {
			for _, s := range ids.plain(root) {
				if s.Inside <= id && id < s.Inside+s.N {
					outside, times = s.Outside+id-s.Inside, times+1
				}
			}
			return outside, times
		}
		if at, times := find(uint64(root)); at != first || times != 1 {
			t.Errorf("%d is %d, %d times", root, at, times)
		}
		for _, own := range []uint64{first, first + 1, first + 33, first + IDsLen - 1, noID} {
			if at, times := find(own); times != 0 {
				t.Errorf("with root as %d, %d is %d", root, own, at)
			}
		}
		for _, other := range []uint64{0, 1000, 65534, 65535, first - 1, first + IDsLen, noID - 1} {
			if at, times := find(other); other != uint64(root) && (at != other || times != 1) {
				t.Errorf("with root as %d, %d is %d, %d times", root, other, at, times)
			}
		}
		taken := map[uint64]uint64{} // no two ids map to the same one
		for _, s := range ids.plain(root) {
			for begin, n := range taken {
				if s.Outside < begin+n && begin < s.Outside+s.N {
					t.Errorf("with root as %d, %+v meets others from %d", root, s, begin)
				}
			}
			taken[s.Outside] = s.N
		}
	}
}

func TestIDsRefused(t *testing.T) {
	good := func() Spec {
		return Spec{
			Rootfs: "/root", Layer: "/layer", Command: []string{"true"}, IDs: &IDs{First: 400_000_000, UID: 65534, GID: 65534},
		}
	}
	if err := good().Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Spec){
		"the machine's own numbers": func(s *Spec) { s.IDs.First = 65535 },
		"beyond all":                func(s *Spec) { s.IDs.First = noID - 1000 },
		"root as root":              func(s *Spec) { s.IDs.UID = 0 },
		"root as its own":           func(s *Spec) { s.IDs.UID = s.IDs.First },
		"a group of its own":        func(s *Spec) { s.IDs.GID = s.IDs.First + IDsLen - 1 },
		"nowhere to write":          func(s *Spec) { s.Layer = "" },
	} {
		spec := good()
		change(&spec)
		if err := spec.Validate(); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
