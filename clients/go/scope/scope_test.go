package scope

import (
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// TestParse checks the job and the elements that each form names, for an array with the indices 1 to 12.
func TestParse(t *testing.T) {
	array := &messages.ArraySpec{Indices: []*messages.IndexRange{{First: 1, Last: 12}}}
	for word, want := range map[string][]int32{
		"J_5": {5}, "J_05": {5}, "J_[5-6,9]": {5, 6, 9}, "J_[1-9:2]": {1, 3, 5, 7, 9}, "J[3-5]": {3, 4, 5},
		"J[5]": {5}, "J_[9,1,9,1-2]": {1, 2, 9}, "J_[4-5:9]": {4},
		"J[1-12]": nil, "J[1-12%4]": nil, "J_[12,1-11]": nil,
	} {
		s, err := Parse(word)
		if err != nil {
			t.Fatalf("%s: %s", word, err)
		}
		got, err := s.In(array)
		if s.Job != "J" || err != nil || !slices.Equal(got, want) {
			t.Errorf("%s names %v of %s (%v), want %v", word, got, s.Job, err, want)
		}
		for index := range int32(14) {
			if is := want == nil && array.Place(index) >= 0 || slices.Contains(want, index); s.Has(index) != is {
				t.Errorf("%s has %d: %t", word, index, s.Has(index))
			}
		}
	}
	for _, word := range []string{"J", "my_job", "J_", "_5", "J_-1", "J_x", "J_5-6", "J_5,6", "J_4294967296", "a.b-c_d"} {
		if s, err := Parse(word); err != nil || s.Elements() || s.Job != word {
			t.Errorf("%s is read as %v (%v)", word, s, err)
		}
	}
}

// TestRefused checks that the error for an invalid or unknown scope names the argument.
func TestRefused(t *testing.T) {
	array := &messages.ArraySpec{Indices: []*messages.IndexRange{{First: 1, Last: 12}}}
	for _, word := range []string{
		"J[", "J]", "J[]", "J[5", "J5]", "J[5]x", "J[[5]]", "J_[5][6]", "[5]", "_[5]", "J[5-]", "J[-5]", "J[6-5]", "J[5,]",
		"J[,5]", "J[a]", "J[1-5:0]", "J[1-5:]", "J[5:2]", "J[ 5]", "J[+5]", "J[1-5:-1]", "J[0x5]", "J[5%]", "J[5%x]",
		"J[1,2,3,4,…]", "J[99999999999]", "J[0-5]", "J[5-13]", "J[13]", "J[0-2147483646]", "J_[1-5%2]", "J_13", "J_0",
	} {
		s, err := Parse(word)
		if err == nil {
			_, err = s.In(array)
		}
		if err == nil || !strings.HasPrefix(err.Error(), `"`+word+`": `) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// TestSplit checks that a separator inside brackets does not split.
func TestSplit(t *testing.T) {
	for _, c := range []struct{ text, separator, want string }{
		{"a,b", ",", "a|b"}, {"J_[5-6,9],K", ",", "J_[5-6,9]|K"}, {"", ",", ""}, {"a,", ",", "a|"},
		{"ok:J_[1-9:2]:7", ":", "ok|J_[1-9:2]|7"}, {"J[1,2", ",", "J[1,2"}, {"J]1,2", ",", "J]1|2"},
	} {
		if got := strings.Join(Split(c.text, c.separator), "|"); got != c.want {
			t.Errorf("%q is cut into %s, want %s", c.text, got, c.want)
		}
	}
}
