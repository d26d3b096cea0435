// This file holds the rule that pages name only tests that exist.
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
	page, err := os.ReadFile("../docs/contribute/known-failures.md")
	if err != nil {
		t.Fatal(err)
	}
	_, tables, found := strings.Cut(string(page), "\n## ")
	if !found {
		t.Fatal("the page has no section")
	}
	tests := declaredTests(t)
	named := 0
	for _, m := range regexp.MustCompile("`([A-Za-z0-9-]+)`").FindAllStringSubmatch(tables, -1) {
		name := m[1]
		named++
		_, err := os.Stat(filepath.Join("testdata/scenarios", name+".txt"))
		if there := err == nil || tests[name]; !there {
			t.Errorf("docs/contribute/known-failures.md names %s, which is neither a scenario nor a test", name)
		}
	}
	if named < 80 {
		t.Errorf("only %d names were found on the page", named)
	}
}

// TestPagesNameTests looks up every test that a page names, with its package if the page names it.
func TestPagesNameTests(t *testing.T) {
	tests := declaredTests(t)
	for page, least := range map[string]int{
		"README.md": 40, "../docs/contribute/security-tests.md": 200, "../docs/contribute/isolation-tests.md": 100,
		"../docs/contribute/runtime-tests.md": 60, "../docs/operate/gpus.md": 0, "../docs/jobs/data.md": 0,
	} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		named := regexp.MustCompile("`((?:[a-z]+\\.)?Test\\w+)`").FindAllStringSubmatch(string(text), -1)
		for _, m := range named {
			if !tests[m[1]] {
				t.Errorf("%s names %s, which does not exist", page, m[1])
			}
		}
		if len(named) < least {
			t.Errorf("only %d tests were found on %s", len(named), page)
		}
	}
}

// declaredTests returns all tests of the tree, by name and by package and name.
func declaredTests(t *testing.T) map[string]bool {
	t.Helper()
	tests := map[string]bool{}
	declared := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	clause := regexp.MustCompile(`(?m)^package (\w+?)(_test)?$`)
	err := filepath.WalkDir("..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		name := filepath.Base(filepath.Dir(path))
		if c := clause.FindStringSubmatch(string(text)); c != nil && c[1] != "main" {
			name = c[1] // its folder may have another name
		}
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			tests[m[1]], tests[name+"."+m[1]] = true, true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return tests
}
