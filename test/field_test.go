// This file owns the law that docs/field.md promises no test that there is not.
package test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestFieldPageIsTrue looks up every scenario and every test that the page names.
func TestFieldPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../docs/field.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(page), "\n## ")
	if !found {
		t.Fatal("the page has no section")
	}
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	err = filepath.WalkDir("..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, m := range regexp.MustCompile("`([A-Za-z0-9-]+)`").FindAllStringSubmatch(tables, -1) {
		name := m[1]
		named++
		_, err := os.Stat(filepath.Join("testdata/scenarios", name+".txt"))
		if there := err == nil || tests[name]; !there {
			t.Errorf("docs/field.md names %s, which is no scenario and no test", name)
		}
	}
	if named < 80 {
		t.Errorf("only %d names were found on the page", named)
	}
}
