package gpu

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/able/pace"
)

// TestParseXid checks the records of different driver versions, and that records of other programs are ignored.
func TestParseXid(t *testing.T) {
	for record, want := range map[string]xid{
		"4,1234,5678,-;NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n": {
			"0000:3b:00", 79, "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
		},
		"3,1,2,-,caller=T1;NVRM: Xid (PCI:0000:C1:00): 31, pid=77, MMU Fault\n SUBSYSTEM=pci\n": {
			"0000:c1:00", 31, "pid=77, MMU Fault",
		},
		"4,1,2,-;NVRM: Xid (0000:03:00): 48, An uncorrectable double bit error": {
			"0000:03:00", 48, "An uncorrectable double bit error",
		},
		"4,1,2,-;NVRM: Xid (PCI:0000:07:00 GPU-I:05): 13, pid=1": {
			"0000:07:00", 13, "pid=1",
		},
		"4,1,2,-;NVRM: Xid (PCI:00000000:07:00.0): 62": {
			"0000:07:00", 62, "",
		},
	} {
		if got, ok := parseXid(record); !ok || got != want {
			t.Errorf("%q: %+v, %v", record, got, ok)
		}
	}
	for _, record := range []string{
		"", ";", "4,1,2,-", "x,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, x", "4,1,2,-;NVRM: GPU at PCI:0000:3b:00: GPU-1",
		"12,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, a program wrote this", "4,1,2,-;NVRM: Xid (PCI:0000:3b:00",
		"4,1,2,-;NVRM: Xid (): 79, x",
		"4,1,2,-;NVRM: Xid (PCI:0000:3b:00): many, x", "4,1,2,-;NVRM: Xid (PCI:0000:3b:00): -1, x",
		"4,1,2,-;usb 1-1: NVRM: Xid (PCI:0000:3b:00): 79, x",
	} {
		if got, ok := parseXid(record); ok {
			t.Errorf("%q: %+v", record, got)
		}
	}
}

// TestXids checks that an Xid that makes a device unusable withdraws it, with its meaning. A program's Xid and an
// unknown Xid are only noted, once between two checks. Other devices are not affected.
func TestXids(t *testing.T) {
	for _, c := range []struct {
		x    xid
		want string // empty: nothing is withdrawn
		note string
	}{
		{xid{"0000:43:00", 79, "GPU has fallen off the bus."}, "Xid 79: the GPU has fallen off", "Xid 79: GPU has fallen"},
		{xid{"0000:43:00", 48, "DBE"}, "Xid 48: the memory has an error", "Xid 48: DBE"},
		{xid{"0000:43:00", 31, "pid=7, MMU Fault"}, "", "Xid 31 (a program accessed memory that it does not own): pid=7"},
		{xid{"0000:43:00", 94, "Contained"}, "", "Xid 94 (a memory error affected one program)"},
		{xid{"0000:43:00", 9999, "what is this"}, "", "Xid 9999: what is this"},
		{xid{"0000:43:00", 154, "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)"},
			"Xid 154: the driver reports", "Xid 154"},
		{xid{"0000:43:00", 154, "GPU recovery action changed from 0x1 (GPU Reset Required) to 0x0 (None)"}, "", "Xid 154"},
		{xid{"0000:99:00", 79, "GPU has fallen off the bus."}, "", ""},
	} {
		w := begin(t, newRig(t).says("query", "535.xml"))
		for range 3 {
			w.watch.onXid(c.x)
		}
		if got := strings.Join(w.told, "\n"); c.want == "" && got != "" ||
			c.want != "" && !strings.HasPrefix(got, h1+": "+c.want) {
			t.Errorf("%+v: reported %q", c.x, got)
		}
		if c.note == "" {
			tells(t, w.notes)
		} else {
			tells(t, w.notes, "GPU "+h1+": "+c.note)
		}
	}
}

// TestXidParts checks that an Xid of a divided GPU affects each of its parts.
func TestXidParts(t *testing.T) {
	w := begin(t, migRig(t))
	w.watch.onXid(xid{"0000:07:00", 95, "Uncontained"})
	if len(w.told) != 3 || !strings.HasPrefix(w.told[0], "MIG-") {
		t.Errorf("reported %q", w.told)
	}
}

// overrun is a log with lost messages.
type overrun struct{ parts []any }

func (o *overrun) Read(into []byte) (int, error) {
	if len(o.parts) == 0 {
		return 0, io.EOF
	}
	part := o.parts[0]
	o.parts = o.parts[1:]
	if err, ok := part.(error); ok {
		return 0, &os.PathError{Op: "read", Path: "/dev/kmsg", Err: err}
	}
	return copy(into, part.(string)), nil
}

// TestXidOverrun checks that reading continues after lost messages.
func TestXidOverrun(t *testing.T) {
	log := &overrun{
		parts: []any{
			syscall.EPIPE, "4,9,9,-;NVRM: Xid (PCI:0000:3b:00): 13, x", syscall.EINTR, "garbage", syscall.EPIPE,
			"4,9,9,-;NVRM: Xid (PCI:0000:3b:00): 31, y",
		},
	}
	got := make(chan xid, 8)
	if err := readXids(context.Background(), log, got); !errors.Is(err, io.EOF) || len(got) != 2 || (<-got).number != 13 ||
		(<-got).number != 31 {
		t.Errorf("%v, %d more", err, len(got))
	}
}

// TestXidWatch checks that a watch reads the log in addition to its checks, and stops with it.
func TestXidWatch(t *testing.T) {
	r := newRig(t).says("query", "535.xml")
	found := r.mustFind()
	pipe := filepath.Join(t.TempDir(), "kmsg")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	writer, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer writer.Close()
	told := make(chan string, 8)
	var once sync.Once
	watch := StartWatch(Watching{
		Finder: r.finder(), Devices: found.Devices, Every: time.Hour, KernelLog: pipe, Well: func(string) {}, Note: t.Logf,
		Tell: func(id, why string) { once.Do(func() { told <- id + ": " + why }) },
	})
	if _, err := writer.WriteString("4,1,2,-;NVRM: Xid (PCI:0000:43:00): 79, GPU has fallen off the bus.\n"); err != nil {
		t.Fatal(err)
	}
	select {
	case got := <-told:
		if !strings.HasPrefix(got, h1+": Xid 79") {
			t.Error(got)
		}
	case <-time.After(pace.Of(time.Minute)):
		t.Error("nothing was reported")
	}
	watch.Close() // hangs if the reader does not stop
	StartWatch(Watching{
		Finder: r.finder(), Devices: found.Devices, Every: time.Hour, KernelLog: "/no/such", Well: func(string) {},
		Tell: func(string, string) {}, Note: t.Logf,
	}).Close()
}

// FuzzXid checks that no message of the log panics the agent.
func FuzzXid(f *testing.F) {
	f.Add("4,1,2,-;NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.")
	f.Fuzz(func(t *testing.T, record string) {
		if x, ok := parseXid(record); ok && (x.bus == "" || x.number < 0 || x.words() == "") {
			t.Errorf("%q: %+v", record, x)
		}
	})
}
