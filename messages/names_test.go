package messages

import "testing"

// TestKnown: an owner called anonymous is nobody who is named.
func TestKnown(t *testing.T) {
	for name, want := range map[string]string{Anonymous: "", "": "", "ann": "ann"} {
		if got := (&Principal{Name: name}).Known(); got != want {
			t.Errorf("%q is known as %q", name, got)
		}
	}
	if got := (*Principal)(nil).Known(); got != "" {
		t.Errorf("nobody is known as %q", got)
	}
}
