package show

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// This file tests how objects are printed.

// TestYAMLOfAnyText checks that a text with any characters reads back from YAML unchanged.
func TestYAMLOfAnyText(t *testing.T) {
	const together = 512
	var text strings.Builder
	for r := rune(1); r <= utf8.MaxRune; r++ {
		if utf8.ValidRune(r) && (r < 0x3000 || r > 0xd000 && r < 0x10400 || r > 0xe0000 && r < 0xe0200) {
			text.WriteString("a")
			text.WriteRune(r)
		}
		if text.Len() < together && r != utf8.MaxRune {
			continue
		}
		for _, value := range []string{text.String(), text.String() + "\nmore"} {
			var out bytes.Buffer
			if err := Object(&out, "yaml", map[string]string{"text": value}); err != nil {
				t.Fatalf("up to %U: %v", r, err)
			}
			var back struct{ Text string }
			if err := yaml.Unmarshal(out.Bytes(), &back); err != nil || back.Text != value {
				t.Fatalf("up to %U: %v; %q becomes %q", r, err, value, back.Text)
			}
		}
		text.Reset()
	}
}
