package patch

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const head = "# harm: h\n# catches: seeds\nin: a\n"

func TestParseRefusesWhatIsIncomplete(t *testing.T) {
	for text, want := range map[string]string{
		"":                                  "no `# harm:`",
		"# harm: h\n":                       "no `# catches:",
		"# harm: h\n# catches: luck\n":      "no `# catches:",
		"# harm: h\n# catches: scenario \n": "no `# catches:",
		"# harm: h\n# catches: test a\n":    "no `# catches:",
		"# harm: h\n# catches: seeds\n":     "no `in:`",
		head:                                "no block",
		head + "<<<<\nx\n":                  "a block without",
		head + "<<<<\nx\n>>>>\n":            "a block without",
		head + "stray\n":                    "outside a block",
		head + "in: b\n":                    "a second `in:`",
	} {
		if _, err := Parse("x", text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: want %q, not %v", text, want, err)
		}
	}
}

// TestApply checks that the text is found only below the folder, and that a function's name distinguishes two
// occurrences.
func TestApply(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		"a/a.go":          "one\ntwo\ntwo\nthree\n",
		"a/b/b.go":        "func f() {\n\tfive\n}\n\nfunc (x T) g() {\n\tfive\n}\n",
		"a/a_test.go":     "one\n",
		"a/testdata/a.go": "one\n",
		"ab/a.go":         "one\n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ blocks, file, want, fails string }{
		{blocks: "<<<<\none\n====\n1\n>>>>\n<<<<\nthree\n====\n>>>>\n", file: "a/a.go", want: "1\ntwo\ntwo\n\n"},
		{blocks: "<<<<\ntwo\n====\n2\n>>>>\n", fails: "occur [2] times in a: quote more"},
		{blocks: "<<<<\nfour\n====\n4\n>>>>\n", fails: "block 1 occurs nowhere in a"},
		{blocks: "<<<<\none\n====\n1\n>>>>\n<<<<\nfive\n====\n5\n>>>>\n", fails: "occur [1 2] times"},
		{blocks: "<<<<\none\n====\none\n>>>>\n", fails: "changes nothing"},
		{blocks: "<<<<\n\tfive\n====\n\t5\n>>>>\n", fails: "occur [2] times"},
		{blocks: "func: g\n<<<<\n\tfive\n====\n\t5\n>>>>\n", file: "a/b/b.go",
			want: "func f() {\n\tfive\n}\n\nfunc (x T) g() {\n\t5\n}\n"},
		{blocks: "func: h\n<<<<\n\tfive\n====\n\t5\n>>>>\n", fails: "nowhere in the functions h in a"},
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "x.patch"), []byte(head+test.blocks), 0o600); err != nil {
			t.Fatal(err)
		}
		got, file := "", ""
		mutants, err := Load(root, folder)
		if err == nil {
			file = mutants[0].File
			got, err = mutants[0].Apply(root)
		}
		if got != test.want || test.want != "" && file != test.file || (err == nil) != (test.fails == "") ||
			err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%q: want %q in %s or %q, not %q in %s, %v", test.blocks, test.want, test.file, test.fails, got, file, err)
		}
	}
}
