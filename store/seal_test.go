package store

import (
	"bytes"
	"errors"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/topology"
)

// This file owns the tests that a sealed record is read back unchanged, or refused.

func sealedJob(t testing.TB) (*messages.JobRecord, []byte) {
	t.Helper()
	job := submitted("j", 1)
	job.Spec = &messages.JobSpec{Name: "train", Image: "host"}
	return job, seal(encode(job))
}

func TestSealedRecordsComeBackWhole(t *testing.T) {
	job, sealed := sealedJob(t)
	if got, err := ReadJob("j", sealed); err != nil || !proto.Equal(got, job) {
		t.Fatalf("read %v (%v)", got, err)
	}
	for n := range sealed { // protobuf alone accepts many of these as shorter records
		if got, err := ReadJob("j", sealed[:n]); !errors.Is(err, ErrDamaged) {
			t.Fatalf("cut to %d bytes it reads %v (%v)", n, got, err)
		}
		for bit := range 8 {
			flipped := bytes.Clone(sealed)
			flipped[n] ^= 1 << bit
			if got, err := ReadJob("j", flipped); !errors.Is(err, ErrDamaged) {
				t.Fatalf("with bit %d of byte %d flipped it reads %v (%v)", bit, n, got, err)
			}
		}
	}
	if _, err := ReadJob("k", sealed); !errors.Is(err, ErrDamaged) {
		t.Fatalf("under another key: %v", err)
	}
}

// FuzzRead checks that any stored bytes are read or refused without a panic.
func FuzzRead(f *testing.F) {
	_, sealed := sealedJob(f)
	f.Add(sealed)
	f.Add([]byte{sealFormat})
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, stored := range [][]byte{data, seal(data)} {
			_, errJob := ReadJob("j", stored)
			_, errAttempt := ReadAttempt("j", topology.Token{Epoch: 1, Counter: 1}, stored)
			_, errNode := ReadNode("n", stored)
			for _, err := range []error{errJob, errAttempt, errNode} {
				if err != nil && !errors.Is(err, ErrDamaged) {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestDamageEndsTheProcess checks that a leader does not retry a read of a damaged record forever.
func TestDamageEndsTheProcess(t *testing.T) {
	mustBeWhole(nil)
	mustBeWhole(errors.New("the cable came out"))
	defer func() {
		if err, ok := recover().(error); !ok || !errors.Is(err, ErrDamaged) {
			t.Fatalf("it went on: %v", err)
		}
	}()
	_, sealed := sealedJob(t)
	_, err := ReadJob("another", sealed)
	mustBeWhole(err)
	t.Fatal("it went on")
}
