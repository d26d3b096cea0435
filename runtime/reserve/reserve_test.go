//go:build linux

package reserve

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/yi-json/synapse/runtime/tree"
)

// TestLacks checks that a disk lacks space if it has less than the minimum of bytes or files, and not if it has exactly
// the minimum.
func TestLacks(t *testing.T) {
	least := tree.Usage{Bytes: 100, Files: 10}
	for _, c := range []struct {
		bytes, files int64
		lacks        bool
	}{
		{100, 10, false}, {101, 11, false}, {99, 10, true}, {100, 9, true}, {99, 9, true}, {0, 1000, true}, {1000, 0, true},
	} {
		if d := (Disk{Free: tree.Usage{Bytes: c.bytes, Files: c.files}}); d.Lacks(least) != c.lacks {
			t.Errorf("%d bytes and %d files lack: %v", c.bytes, c.files, !c.lacks)
		}
	}
}

// TestOfAndAt checks that the disk of a path is that of a file there. Space reserved for root is not free. A file
// system that counts no files has very many.
func TestOfAndAt(t *testing.T) {
	file, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	of, err := Of(file.Name())
	at, wrong := At(int(file.Fd()))
	if err != nil || wrong != nil || of.Size != at.Size || of.Size.Bytes <= 0 || of.Size.Files <= 0 {
		t.Errorf("%+v and %+v, %v, %v", of, at, err, wrong)
	}
	if _, err := Of(file.Name() + "/none"); err == nil {
		t.Error("what is not there is on a disk")
	}
	if _, err := At(-1); err == nil {
		t.Error("what is not open is on a disk")
	}
	stat := unix.Statfs_t{Bsize: 4096, Blocks: 100, Bfree: 50, Bavail: 40, Files: 7, Ffree: 3}
	want := Disk{Size: tree.Usage{Bytes: 100 * 4096, Files: 7}, Free: tree.Usage{Bytes: 40 * 4096, Files: 3}}
	if got := from(&stat); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	stat.Files, stat.Ffree = 0, 0
	if got := from(&stat); got.Size.Files != ManyFiles || got.Free.Files != ManyFiles {
		t.Errorf("without files: %+v", got)
	}
	if got, want := want.Share(10), (tree.Usage{Bytes: 40960}); got != want {
		t.Errorf("a tenth is %+v, want %+v", got, want)
	}
}
