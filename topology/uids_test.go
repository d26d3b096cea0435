package topology

import (
	"testing"

	"pgregory.net/rapid"
)

func TestParseUIDRange(t *testing.T) {
	for text, want := range map[string]UIDRange{
		"2000000-2999999": {2000000, 2999999}, "none": {}, "65536-65536": {65536, 65536},
		"4294967293-4294967293": {4294967293, 4294967293},
	} {
		if got, err := ParseUIDRange(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "2000000", "2000001-2000000", "-", "a-b", "1000-70000", "65535-70000",
		"70000-4294967294", "70000-99999999999",
		"100000-200000000", "2000000-2999999-3", " 2000000-2999999", "0-0", "NONE"} {
		if r, err := ParseUIDRange(text); err == nil {
			t.Errorf("%q is %v", text, r)
		}
	}
	if r := (UIDRange{}); r.Len() != 0 || r.Has(0) || r.Has(1) {
		t.Error("none has some")
	}
}

// TestUIDsRound checks that no held uid is assigned, and that no uid is assigned again before all others that were
// free.
func TestUIDsRound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 40).Draw(t, "size")
		u := NewUIDs(UIDRange{100_000, 100_000 + uint32(size) - 1})
		held := map[uint32]int{}
		given := map[uint32]uint64{} // the last arrival of each uid
		arrival := rapid.Uint64Range(0, 1<<40).Draw(t, "arrival")
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			uid := u.First + uint32(rapid.IntRange(-1, size).Draw(t, "uid"))
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				if u.Hold(uid); u.Has(uid) {
					held[uid]++
				}
			case 1:
				if held[uid] > 0 {
					u.Release(uid)
					if held[uid]--; held[uid] == 0 {
						delete(held, uid)
					}
				}
			default:
				if u.Held() != len(held) {
					t.Fatalf("%d are held, and %d say so", len(held), u.Held())
				}
				if len(held) == size {
					continue
				}
				got, at := u.Next(arrival + 1)
				if held[got] > 0 || at <= arrival || got != u.First+uint32(at%uint64(size)) {
					t.Fatalf("%d by arrival %d, held %d times", got, at, held[got])
				}
				if last, again := given[got]; again && at-last < uint64(size) {
					t.Fatalf("%d was given by arrival %d, and again by %d, of %d", got, last, at, size)
				}
				arrival, given[got] = at, at
			}
		}
	})
}

// BenchmarkUIDsNext measures Next when a hundred thousand consecutive jobs hold their uids.
func BenchmarkUIDsNext(b *testing.B) {
	u := NewUIDs(UIDRange{2_000_000, 2_999_999})
	for uid := uint32(2_000_000); uid < 2_100_000; uid++ {
		u.Hold(uid)
	}
	arrival := uint64(0)
	for b.Loop() {
		uid, at := u.Next(arrival + 1)
		u.Hold(uid)
		u.Release(uid)
		arrival = at
	}
}
