package gpu

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// program is a stand-in for nvidia-smi that does what the script says.
func program(t *testing.T, script string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "smi")
	if err := os.WriteFile(name, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return name
}

// TestNvidia: what real drivers print becomes devices.
func TestNvidia(t *testing.T) {
	gpus, err := Nvidia(program(t, `[ "$1" = --query-gpu=index,uuid,name,memory.total,pci.bus_id ] || exit 9
cat <<END
0, GPU-5a8b2c1d-0000-1111-2222-333344445555, NVIDIA H100 80GB HBM3, 81559, 00000000:1B:00.0
1, GPU-6a8b2c1d-0000-1111-2222-333344445555, Tesla V100-SXM2-16GB, 16384, 00000000:43:00.0
2, GPU-7a8b2c1d-0000-1111-2222-333344445555, NVIDIA A100-PCIE-40GB, [N/A], [N/A]
END`), time.Minute)(context.Background())
	if err != nil || len(gpus) != 3 {
		t.Fatal(gpus, err)
	}
	first := gpus[0]
	if first.Id != "GPU-5a8b2c1d-0000-1111-2222-333344445555" || first.Type != "h100" || first.MemoryBytes != 81559<<20 ||
		first.BusId != "00000000:1B:00.0" || first.Minor != 0 || first.Declared {
		t.Error(first)
	}
	if gpus[1].Type != "v100" || gpus[2].Type != "a100" || gpus[2].MemoryBytes != 0 || gpus[2].BusId != "" || gpus[2].Minor != 2 {
		t.Error(gpus)
	}
}

// TestNone: a machine without a driver, or with one and no device, has none.
func TestNone(t *testing.T) {
	for _, command := range []string{filepath.Join(t.TempDir(), "no-such"), program(t, `echo "No devices were found"`), program(t, "true")} {
		if gpus, err := Nvidia(command, time.Minute)(context.Background()); len(gpus) > 0 || err != nil {
			t.Error(gpus, err)
		}
	}
}

// TestTrouble: a driver that is there and does not work is told, in time.
func TestTrouble(t *testing.T) {
	for _, c := range []struct{ script, says string }{
		{`echo "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver."; exit 9`, "couldn't communicate"},
		{`sleep 60`, "did not answer"},
		{`echo "0, , H100, 1, 2"`, "no identity"},
		{`echo "0, GPU-1, H100, 1, 2"; echo "1, GPU-1, H100, 1, 3"`, "no identity"},
	} {
		begin := time.Now()
		gpus, err := Nvidia(program(t, c.script), 300*time.Millisecond)(context.Background())
		if c.says != "did not answer" && err != nil && strings.Contains(err.Error(), "did not answer") {
			gpus, err = Nvidia(program(t, c.script), time.Minute)(context.Background()) // a busy machine
		}
		if err == nil || !strings.Contains(err.Error(), c.says) || len(gpus) > 0 || time.Since(begin) > 20*time.Second {
			t.Errorf("%s: %v, %v after %v", c.script, gpus, err, time.Since(begin))
		}
	}
}

// TestDeclared: the operator's word is marked as such.
func TestDeclared(t *testing.T) {
	gpus, err := Declared(2, "h100")(context.Background())
	if err != nil || len(gpus) != 2 || gpus[1].Id != "declared-1" || gpus[1].Minor != 1 || !gpus[1].Declared || gpus[1].Type != "h100" {
		t.Error(gpus, err)
	}
	if _, err := Declared(-1, "")(context.Background()); err == nil {
		t.Error("less than none")
	}
}

// FuzzParse: whatever the program prints, reading it is safe, and what comes out has an identity.
func FuzzParse(f *testing.F) {
	f.Add("0, GPU-1, NVIDIA H100, 1, 2")
	f.Add(`0, "GPU-1`)
	f.Fuzz(func(t *testing.T, text string) {
		gpus, err := parse([]byte(text))
		for _, g := range gpus {
			if err != nil || g.Id == "" || g.MemoryBytes < 0 || g.Minor < 0 || len(g.Type) > 63 {
				t.Error(g, err)
			}
		}
	})
}
