package topology

import (
	"fmt"
	"math"
	"slices"
	"testing"
)

// TestTokenAsText checks that the texts of tokens have the order of the tokens, because tasks compare the texts for
// fencing.
func TestTokenAsText(t *testing.T) {
	var texts []string
	for _, n := range []uint64{0, 1, 0xf, 0x10, 0xabcdef, math.MaxUint32} {
		token := Token{Epoch: n, Counter: math.MaxUint32 - n}
		if got, want := token.String(), fmt.Sprintf("%08x.%08x", token.Epoch, token.Counter); got != want {
			t.Errorf("%+v is written %s, want %s", token, got, want)
		}
		texts = append(texts, token.String())
	}
	if !slices.IsSorted(texts) {
		t.Errorf("%q are not in the order of their tokens", texts)
	}
	for _, token := range []Token{{1, 2}, {math.MaxUint32 + 1, 7}, {math.MaxUint64, math.MaxUint64}} {
		if got, err := ParseToken(token.String()); err != nil || got != token {
			t.Errorf("%s is read as %+v, %v", token, got, err)
		}
		if got, want := token.String(), fmt.Sprintf("%08x.%08x", token.Epoch, token.Counter); got != want {
			t.Errorf("%+v is written %s, want %s", token, got, want)
		}
	}
}
