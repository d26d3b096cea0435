// This file checks that other targets run the tests which `make test` skips.
package test

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// skipped is the test that make test skips by name.
const skipped = "TestManyBehindOneAddress"

// TestCrowdsAreRun checks that each test with a crowd is in the Makefile's CROWDS and its package in CROWDED, and that
// CROWDS has no other entry.
func TestCrowdsAreRun(t *testing.T) {
	var makefile string
	var found, folders []string
	for _, s := range readTree(t) {
		if s.path == "Makefile" {
			makefile = s.text
		}
		if s.syntax == nil {
			continue
		}
		for _, d := range s.syntax.Decls {
			test, is := d.(*ast.FuncDecl)
			if !is || !strings.HasPrefix(test.Name.Name, "Test") || test.Body == nil {
				continue
			}
			if test.Name.Name == skipped {
				found = append(found, "$(SKIPPED)")
			}
			ast.Inspect(test.Body, func(node ast.Node) bool {
				if call, is := node.(*ast.SelectorExpr); is && strings.HasPrefix(call.Sel.Name, "Crowd") &&
					s.imported(call) == module+"/test/able/pace" {
					found = append(found, test.Name.Name)
					folders = append(folders, "./"+s.path[:strings.LastIndexByte(s.path, '/')])
				}
				return true
			})
		}
	}
	listed := func(variable, separator string) []string {
		line := regexp.MustCompile(`(?m)^` + variable + ` = (.*)$`).FindStringSubmatch(makefile)
		if line == nil {
			t.Fatalf("the Makefile has no %s", variable)
		}
		return slices.Sorted(slices.Values(strings.Split(line[1], separator)))
	}
	if got := listed("SKIPPED", "|"); !slices.Equal(got, []string{skipped}) {
		t.Errorf("SKIPPED of the Makefile has %q", got)
	}
	slices.Sort(found)
	slices.Sort(folders)
	if got := listed("CROWDS", "|"); !slices.Equal(got, found) || len(found) == 0 {
		t.Errorf("CROWDS of the Makefile has %q, but the tests %q need a crowd", got, found)
	}
	if got := listed("CROWDED", " "); !slices.Equal(got, slices.Compact(folders)) {
		t.Errorf("CROWDED of the Makefile has %q, but the tests are in %q", got, folders)
	}
}
