package messages

import (
	"bytes"
	"testing"

	"google.golang.org/protobuf/proto"
)

// TestBytes checks that the generated code encodes every message as the library does, empty and filled, and with
// unknown fields.
func TestBytes(t *testing.T) {
	for name, kind := range published(t) {
		for depth := range 4 {
			m := filled(kind, depth)
			sameBytes(t, m.Interface().(Message))
			m.SetUnknown([]byte{0xf8, 0xff, 0xff, 0xff, 0x0f, 7})
			sameBytes(t, m.Interface().(Message))
		}
		empty := kind.New().Interface().(Message)
		if sameBytes(t, empty); Size(empty) != 0 {
			t.Errorf("an empty %s takes %d bytes", name, Size(empty))
		}
	}
}

func TestAppendKeepsWhatIsThere(t *testing.T) {
	m := &Token{Epoch: 1, Counter: 300}
	for _, room := range []int{0, 64} {
		data := append(make([]byte, 0, room), "before"...)
		if got, want := Append(data, m), append([]byte("before"), Bytes(m)...); !bytes.Equal(got, want) {
			t.Errorf("with room for %d: %x, want %x", room, got, want)
		}
	}
}

func sameBytes(t *testing.T, m Message) {
	t.Helper()
	want, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	if got := Bytes(m); !bytes.Equal(got, want) || Size(m) != len(want) {
		t.Errorf("%T is %x in %d bytes, want %x", m, got, Size(m), want)
	}
}

// BenchmarkBytes measures the encoding of the COMMIT of 64 nodes with 8 devices each.
func BenchmarkBytes(b *testing.B) {
	commit := &AttemptRecord{Token: &Token{Epoch: 1, Counter: 9}}
	for rank := range int32(64) {
		grant := &Grant{Rank: rank, Amount: &Resources{MilliCpu: 32_000, MemoryBytes: 256 << 30, MilliGpu: 8_000}}
		for range 8 {
			grant.Gpus = append(grant.Gpus, &GpuShare{GpuId: "GPU-n0001-3", Milli: 1000})
		}
		commit.Places = append(commit.Places, &Place{
			Rank: rank, Node: "n0001", MachineId: "machine-n0001", Grant: grant, Address: "10.0.0.1",
		})
	}
	b.Run("generated", func(b *testing.B) {
		for b.Loop() {
			Bytes(commit)
		}
	})
	b.Run("library", func(b *testing.B) {
		for b.Loop() {
			if _, err := proto.Marshal(commit); err != nil {
				b.Fatal(err)
			}
		}
	})
}
