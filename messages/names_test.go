package messages

import "testing"

// TestKnown checks that anonymous is not a known name.
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
