package supervisor

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestExitFitsItsRoom checks that the exit record fits its reserved space with any detail, so a full disk cannot
// prevent it. A long detail is truncated at its end.
func TestExitFitsItsRoom(t *testing.T) {
	for _, text := range []string{"", "a", "é", "<", "\x01", "\u2028", "\xff", `"`} {
		for _, many := range []int{0, 1, 100, 1023, 1024, 1025, 2047, 2048, 2049, 10_000} {
			dir, detail := t.TempDir(), strings.Repeat(text, many)
			exit := &Exit{Kind: LaunchFailed, Detail: detail}
			if err := WriteExit(dir, exit); err != nil {
				t.Fatal(err)
			}
			info, err := os.Stat(filepath.Join(dir, exitFile))
			if err != nil || info.Size() != exitReserve {
				t.Errorf("%d of %q take %d bytes, %v", many, text, info.Size(), err)
			}
			got, err := ReadExit(dir)
			if err != nil || got.Kind != LaunchFailed || !utf8.ValidString(got.Detail) || len(got.Detail) > 3*2048 {
				t.Errorf("%d of %q are read as %+v, %v", many, text, got, err)
			}
			if plain := text == "a" || text == "é"; plain && (!strings.HasPrefix(detail, got.Detail) ||
				len(got.Detail) < min(len(detail), 2048-len(text))) {
				t.Errorf("%d of %q are read as %d bytes of detail", many, text, len(got.Detail))
			}
		}
	}
}
