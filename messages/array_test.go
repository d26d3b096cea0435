package messages

import (
	"slices"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

func sweep(most int32, indices ...*IndexRange) *ArraySpec {
	return &ArraySpec{Indices: indices, Most: most}
}

// TestIndices checks that places and indices map to each other one to one.
func TestIndices(t *testing.T) {
	a := sweep(0, &IndexRange{First: 3, Last: 9, Step: 3}, &IndexRange{First: 100, Last: 100}, &IndexRange{Last: 2})
	want := []int32{3, 6, 9, 100, 0, 1, 2}
	if a.Len() != len(want) || a.Index(len(want)) != -1 {
		t.Fatalf("has %d elements", a.Len())
	}
	for place, index := range want {
		if a.Index(place) != index || a.Place(index) != place {
			t.Errorf("at %d is %d, and %d is at %d", place, a.Index(place), index, a.Place(index))
		}
	}
	for _, none := range []int32{4, 10, 99, 101, -1} {
		if a.Place(none) >= 0 {
			t.Errorf("%d is at %d", none, a.Place(none))
		}
	}
	for id, want := range map[string]bool{
		"k_3": true, "k_100": true, "k_a": false, "k_03": false, "_3": false, "k_": false, "k": false,
	} {
		if _, _, is := ArrayOf(id); is != want {
			t.Errorf("%q is the id of an element: %t", id, is)
		}
	}
	if array, index, _ := ArrayOf(ElementID("a_b", 7)); array != "a_b" || index != 7 {
		t.Errorf("read back is %s, %d", array, index)
	}
}

// TestArraysRefused checks that arrays with too many or repeated indices are refused.
func TestArraysRefused(t *testing.T) {
	for _, bad := range []*ArraySpec{
		{}, sweep(0, &IndexRange{Last: MaxElements}), sweep(0, &IndexRange{First: 5, Last: 4}),
		sweep(0, &IndexRange{Last: 5}, &IndexRange{First: 5, Last: 6}), sweep(-1, &IndexRange{}),
		sweep(0, &IndexRange{First: -1}), sweep(0, &IndexRange{Last: 5, Step: -1}),
	} {
		if bad.validOrNone() == nil {
			t.Errorf("%v is taken", bad)
		}
	}
	if err := sweep(10, &IndexRange{Last: MaxElements - 1}).validOrNone(); err != nil {
		t.Error(err)
	}
	if (&JobSpec{Element: &Element{}}).ValidateNew() == nil {
		t.Error("a job that says it is an element is taken")
	}
}

// TestElementsAreAlike checks that the spec of an element has all fields of its array, except for the array itself.
func TestElementsAreAlike(t *testing.T) {
	spec := &JobSpec{}
	fields := spec.ProtoReflect().Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		m := spec.ProtoReflect()
		switch {
		case f.IsList():
			m.Mutable(f).List().Append(m.Mutable(f).List().NewElement())
		case f.Message() != nil:
			m.Mutable(f)
		case f.Kind() == protoreflect.StringKind:
			m.Set(f, protoreflect.ValueOfString("x"))
		case f.Kind() == protoreflect.BoolKind:
			m.Set(f, protoreflect.ValueOfBool(true))
		case f.Kind() == protoreflect.EnumKind:
			m.Set(f, protoreflect.ValueOfEnum(1))
		case f.Kind() == protoreflect.Int32Kind:
			m.Set(f, protoreflect.ValueOfInt32(1))
		default:
			m.Set(f, protoreflect.ValueOfInt64(1))
		}
	}
	spec.Array = sweep(3, &IndexRange{First: 2, Last: 8, Step: 2})
	e := spec.ElementSpec("k", 4)
	for i := range fields.Len() {
		name := string(fields.Get(i).Name())
		has := e.ProtoReflect().Has(fields.Get(i))
		if own := slices.Contains([]string{"array", "after"}, name); has == own {
			t.Errorf("an element has %s: %t", name, has)
		}
	}
	if x := e.Element; x.Array != "k" || x.Index != 4 || x.Count != 4 || x.First != 2 || x.Last != 8 || x.Step != 2 {
		t.Errorf("it is told %v", x)
	}
}

// TestRanges checks that places are stored as ranges and found again.
func TestRanges(t *testing.T) {
	r := &ArrayRecord{Ended: []*ElementsEnded{
		{State: JobState_JOB_STATE_SUCCEEDED, Places: Ranges([]int{0, 1, 2, 5})},
		{State: JobState_JOB_STATE_CANCELLED, Unborn: true, Places: Ranges([]int{3})},
	}}
	if n := len(r.Ended[0].Places); n != 2 {
		t.Errorf("0, 1, 2 and 5 are %d ranges", n)
	}
	for place, want := range []JobState{3, 3, 3, 5, 0, 3} {
		if s, ended := r.EndedAt(place); s != want || ended != (want != 0) {
			t.Errorf("%d ended as %v (%t)", place, s, ended)
		}
		if _, never := r.Unborn(place); never != (place == 3) {
			t.Errorf("%d never was a job: %t", place, never)
		}
	}
}

// TestEndedCounts checks that the record of a finished array has the number of elements in each final state.
func TestEndedCounts(t *testing.T) {
	r := &JobRecord{Spec: &JobSpec{Array: &ArraySpec{Indices: []*IndexRange{{Last: 9}}}}, Array: &ArrayRecord{
		Ended: []*ElementsEnded{
			{State: JobState_JOB_STATE_SUCCEEDED, Places: []*IndexRange{{Last: 3}, {First: 6, Last: 6}}},
			{State: JobState_JOB_STATE_TIMED_OUT, Places: []*IndexRange{{First: 4, Last: 5}}},
			{State: JobState_JOB_STATE_CANCELLED, Unborn: true, Places: []*IndexRange{{First: 7, Last: 9}}},
		},
	}}
	if got := r.EndedCounts().Words(); got != "5 ok, 2 failed, 3 cancelled" {
		t.Errorf("it ended with %s", got)
	}
	if got := (&JobRecord{Spec: &JobSpec{}}).EndedCounts(); got != nil {
		t.Errorf("one job is counted: %v", got)
	}
}

// TestRank0OfArray checks that an array of single tasks may name rank0. Each element has only this rank, which must
// save.
func TestRank0OfArray(t *testing.T) {
	spec := goodSpec()
	spec.Array = sweep(0, &IndexRange{Last: 3})
	spec.Checkpoint = &CheckpointSpec{Commit: SaveCommit_SAVE_COMMIT_RANK0}
	if err := spec.ValidateNew(); err != nil {
		t.Error(err)
	}
	for index := range int32(4) {
		if c := spec.ElementSpec("k", index).Checkpoint; !c.NeedsSaved(0) || c.NeedsSaved(1) {
			t.Errorf("element %d has %v", index, c)
		}
	}
}
