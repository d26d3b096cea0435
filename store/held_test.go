package store

import (
	"errors"
	"reflect"
	"testing"
)

// TestHeldIsFenced: each call that takes an epoch is refused to a process that does not lead, though the epoch is the
// present one. A call that is added later is tried too.
func TestHeldIsFenced(t *testing.T) {
	m := NewMemory()
	if _, err := m.HeldBy("before").Lead(""); err != nil {
		t.Fatal(err)
	}
	epoch, err := m.HeldBy("leader").Lead("")
	if err != nil {
		t.Fatal(err)
	}
	other := reflect.ValueOf(m.HeldBy("before"))
	tried := 0
	for i := range other.NumMethod() {
		name, call := other.Type().Method(i).Name, other.Method(i)
		of := call.Type()
		if of.NumIn() == 0 || of.In(0).Kind() != reflect.Uint64 || of.NumOut() == 0 ||
			of.Out(of.NumOut()-1) != reflect.TypeFor[error]() {
			continue
		}
		tried++
		with := []reflect.Value{reflect.ValueOf(epoch)}
		for j := 1; j < of.NumIn(); j++ {
			with = append(with, reflect.Zero(of.In(j)))
		}
		out := call.Call(with)
		if err, _ := out[len(out)-1].Interface().(error); !errors.Is(err, ErrDeposed) {
			t.Errorf("%s under the epoch of another process: %v", name, err)
		}
	}
	if tried < 8 {
		t.Errorf("only %d calls were tried", tried)
	}
}
