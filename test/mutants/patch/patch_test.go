package patch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const head = "# harm: h\n# catches: seeds\nfile: a.go\n"

func TestParseRefusesWhatIsIncomplete(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "no `# harm:`",
		"# harm: h\n":                       "no `# catches:",
		"# harm: h\n# catches: luck\n":      "no `# catches:",
		"# harm: h\n# catches: scenario \n": "no `# catches:",
		"# harm: h\n# catches: test a\n":    "no `# catches:",
		"# harm: h\n# catches: seeds\n":     "no `file:`",
		head:                                "no block",
		head + "<<<<\nx\n":                  "a block without",
		head + "<<<<\nx\n>>>>\n":            "a block without",
		head + "stray\n":                    "outside a block",
		head + "file: b.go\n":               "changes one file",
	} {
		if _, err := Parse("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, not %v", text, want, err)
		}
	}
}

func TestApply(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.go"), []byte("one\ntwo\ntwo\nthree\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ blocks, want, fails string }{
		{blocks: "<<<<\none\n====\n1\n>>>>\n<<<<\nthree\n====\n>>>>\n", want: "1\ntwo\ntwo\n\n"},
		{blocks: "<<<<\ntwo\n====\n2\n>>>>\n", fails: "occurs 2 times"},
		{blocks: "<<<<\nfour\n====\n4\n>>>>\n", fails: "occurs 0 times"},
		{blocks: "<<<<\none\n====\none\n>>>>\n", fails: "changes nothing"},
	} {
		mutant, err := Parse("x", head+test.blocks)
		if err != nil {
			t.Fatal(err)
		}
		got, err := mutant.Apply(root)
		if got != test.want || (err == nil) != (test.fails == "") ||
			err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%q: want %q or %q, not %q, %v", test.blocks, test.want, test.fails, got, err)
		}
	}
}
