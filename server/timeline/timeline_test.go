package timeline

import (
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// world holds the expected state after each block.
type world struct {
	at   int64
	all  map[string]string
	over []string // things that ended in this block
}

// TestMoments checks that each state is found as it was, and that the following changes lead to every later state,
// for any changes and any end of a part.
func TestMoments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dir, err := os.MkdirTemp("", "past-")
		if err != nil {
			t.Fatal(err)
		}
		defer os.RemoveAll(dir)
		l, err := Open(dir, DefaultFor, MaxBytes)
		if err != nil {
			t.Fatal(err)
		}
		now, all := int64(1_000_000), map[string]string{}
		var history []world
		for range rapid.IntRange(1, 30).Draw(t, "blocks") {
			now += rapid.SampledFrom([]int64{10, 10_000, partFor.Milliseconds()}).Draw(t, "step")
			w := world{at: now}
			for range rapid.IntRange(0, 6).Draw(t, "changes") {
				key := rapid.SampledFrom([]string{"a", "b", "c", "dd", "e"}).Draw(t, "key")
				text := rapid.StringMatching(`"`+key+`[xyz]{0,6}0*"`).Draw(t, "text")
				if e := l.pending[key]; e != nil && e.over {
					continue
				}
				if rapid.IntRange(0, 5).Draw(t, "end") == 0 {
					l.End(key, []byte(text))
					delete(all, key)
					w.over = append(w.over, text)
				} else {
					l.Put(key, []byte(text))
					all[key] = text
				}
			}
			if err := l.Write(now); err != nil {
				t.Fatal(err)
			}
			if rapid.IntRange(0, 9).Draw(t, "restart") == 0 {
				l.Close()
			}
			w.all = maps.Clone(all)
			history = append(history, w)
		}
		l.Close()
		at := rapid.IntRange(0, len(history)-1).Draw(t, "asked")
		if err := checkFrom(dir, history, at); err != nil {
			t.Fatal(err)
		}
	})
}

// checkFrom reads from one expected state on, and compares. Ended texts have no names, so they are compared as
// sets.
func checkFrom(dir string, history []world, at int) error {
	shown, next := map[string]bool{}, at
	over := map[string]bool{}
	for _, w := range history {
		for _, text := range w.over {
			over[text] = true
		}
	}
	return Read(dir, history[at].at, history[len(history)-1].at, func(p Piece) error {
		if p.Gap {
			return nil
		}
		if p.Fresh {
			clear(shown)
		}
		for next < len(history)-1 && history[next].at < p.AtMs {
			next++
		}
		if history[next].at != p.AtMs {
			return fmt.Errorf("told of %d, at which nothing was", p.AtMs)
		}
		for _, text := range p.Texts {
			shown[string(text)] = true
		}
		for key, text := range history[next].all { //order: only searched
			if !shown[text] {
				return fmt.Errorf("at %d %s was %s: %v", p.AtMs, key, text, slices.Sorted(maps.Keys(shown)))
			}
		}
		for text := range shown { //order: only searched
			ever := over[text]
			for i := range history[:next+1] {
				for _, one := range history[i].all { //order: only searched
					ever = ever || one == text
				}
			}
			if !ever {
				return fmt.Errorf("at %d nothing had ever been %s", p.AtMs, text)
			}
		}
		return nil
	})
}

// write writes blocks at intervals of ten seconds, and returns the time of the first.
func write(t *testing.T, dir string, blocks int) int64 {
	t.Helper()
	l, err := Open(dir, DefaultFor, MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	const began = 1_700_000_000_000
	for i := range blocks {
		l.Put("a", fmt.Appendf(nil, `["a",%d]`, i))
		if err := l.Write(began + int64(i)*10_000); err != nil {
			t.Fatal(err)
		}
	}
	return began // not closed, as after a kill
}

// told returns the texts of each piece.
func told(t *testing.T, dir string, at, until int64) (all []string) {
	t.Helper()
	if err := Read(dir, at, until, func(p Piece) error {
		if p.Gap {
			all = append(all, "gap")
			return nil
		}
		all = append(all, fmt.Sprintf("%d%s", p.AtMs/1000%1000, slices.Concat(p.Texts...)))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// TestTorn checks that a truncated part is valid up to the last complete block, for any length. A new process does
// not change an existing part.
func TestTorn(t *testing.T) {
	dir := t.TempDir()
	began := write(t, dir, 20)
	all, err := parts(dir)
	if err != nil || len(all) != 1 {
		t.Fatalf("%v %v", all, err)
	}
	text, err := os.ReadFile(all[0].path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for n := len(text); n >= 0; n-- {
		if err := os.WriteFile(all[0].path, text[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		pieces := told(t, dir, began, began+1_000_000)
		for i, p := range pieces {
			if want := fmt.Sprintf(`%d["a",%d]`, 10*i, i); p != want {
				t.Fatalf("of %d bytes of %d piece %d is %s, not %s", n, len(text), i, p, want)
			}
		}
		seen = max(seen, len(pieces))
	}
	if seen != 20 {
		t.Errorf("the whole part has %d pieces", seen)
	}
	for i := 0; i < len(text); i += 5 { // reading a damaged part ends, with any result
		text[i] ^= 0x55
		if err := os.WriteFile(all[0].path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_ = Read(dir, began, began+1_000_000, func(Piece) error { return nil })
		text[i] ^= 0x55
	}
}

// TestGap checks that a time without a recording is reported as a gap.
func TestGap(t *testing.T) {
	dir := t.TempDir()
	began := write(t, dir, 2)
	l, err := Open(dir, DefaultFor, MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	l.Put("b", []byte(`["b"]`))
	if err := l.Write(began + 600_000); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		at, until int64
		want      []string
	}{
		{0, 900_000, []string{`0["a",0]`, `10["a",1]`, "gap", `600["b"]`}},
		{15_000, 900_000, []string{`15["a",1]`, "gap", `600["b"]`}},
		{5_000, 8_000, []string{`5["a",0]`}},
		{400_000, 900_000, []string{`600["b"]`}}, // the first known time
		{-50_000, 5_000, []string{`0["a",0]`}},
		{700_000, 900_000, []string{`700["b"]`}},
	} {
		if got := told(t, dir, began+c.at, began+c.until); !slices.Equal(got, c.want) {
			t.Errorf("from %d to %d: %q, not %q", c.at, c.until, got, c.want)
		}
	}
}

// TestFull checks that a full disk keeps the existing timeline, and that writing continues later.
func TestFull(t *testing.T) {
	dir := t.TempDir()
	folder := filepath.Join(dir, "past")
	l, err := Open(folder, DefaultFor, MaxBytes)
	if err != nil {
		t.Fatal(err)
	}
	l.Put("a", []byte("1"))
	if err := os.Rename(folder, folder+".away"); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(10_000); err == nil {
		t.Fatal("it was written into a folder that is not there")
	}
	l.Put("b", []byte("2"))
	if err := os.Rename(folder+".away", folder); err != nil {
		t.Fatal(err)
	}
	if err := l.Write(20_000); err != nil {
		t.Fatal(err)
	}
	_ = l.file.Close() // simulates a full disk
	l.Put("a", []byte("3"))
	if err := l.Write(30_000); err == nil {
		t.Fatal("it was written into a file that takes nothing")
	}
	if err := l.Write(40_000); err != nil {
		t.Fatal(err)
	}
	if got, want := told(t, folder, 0, 50_000), []string{"2012", "4032"}; !slices.Equal(got, want) {
		t.Errorf("%q, not %q", got, want)
	}
}

// TestBounds checks that parts that are too old are removed, and then the oldest until the limit is met.
func TestBounds(t *testing.T) {
	for what, c := range map[string]struct {
		sizes []int64 // of parts at intervals of half an hour
		most  int64
		left  int
	}{
		"little, of a day":     {slices.Repeat([]int64{10}, 49), MaxBytes, 49},
		"little, of four days": {slices.Repeat([]int64{10}, 4*48), MaxBytes, 49},
		"much":                 {slices.Repeat([]int64{4 << 20}, 48), MaxBytes, 23},
		"nothing":              {nil, MaxBytes, 0},
	} {
		dir := t.TempDir()
		l, err := Open(dir, DefaultFor, c.most)
		if err != nil {
			t.Fatal(err)
		}
		step := partFor.Milliseconds()
		for i, size := range c.sizes {
			path := filepath.Join(dir, partName(int64(i)*step))
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Truncate(path, size); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.prune(int64(len(c.sizes)) * step); err != nil {
			t.Fatal(err)
		}
		if all, _ := parts(dir); len(all) != c.left {
			t.Errorf("%s: %d parts are left, not %d", what, len(all), c.left)
		}
	}
}

// FuzzBlock checks that reading any bytes ends, with any result.
func FuzzBlock(f *testing.F) {
	l, err := Open(f.TempDir(), DefaultFor, MaxBytes)
	if err != nil {
		f.Fatal(err)
	}
	for i := range 3 {
		l.Put("a", fmt.Appendf(nil, `["a",%d]`, i))
		l.Put(fmt.Sprint("b", i), []byte(`["b"]`))
		l.End("b0", []byte(`["b",0]`))
		block, ended := l.block(int64(i), i == 0)
		l.settle(ended)
		f.Add(block, block)
	}
	f.Fuzz(func(t *testing.T, first, second []byte) {
		r := &reader{until: math.MaxInt64, take: func(Piece) error { return nil }}
		_ = r.block(first, true)
		_ = r.block(second, false)
	})
}
