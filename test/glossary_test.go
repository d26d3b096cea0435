// This file holds the rule that docs/contribute/type-names.md lists the types that exist.
package test

import (
	"fmt"
	"go/ast"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const glossaryPage = "docs/contribute/type-names.md"

var typeInGlossary = regexp.MustCompile("`(\\w+\\.(\\w+))`")

// TestGlossary checks that every type of the glossary exists under its word, and that no type of that name is missing.
// A further meaning of a word needs a further row.
func TestGlossary(t *testing.T) {
	words := glossary(pageOf(t, glossaryPage))
	if len(words) < 15 {
		t.Fatalf("only %d words were found", len(words))
	}
	types := typesOf(readTree(t))
	for _, finding := range compareWords(words, types) {
		t.Error(finding)
	}
	few := map[string]bool{"a.Task": true, "b.task": true, "c.Taskmaster": true}
	for _, wrong := range []map[string][]string{
		{"task": {"a.Task"}}, {"task": {"a.Task", "b.task", "d.Task"}}, {"job": {"a.Task"}},
	} {
		if compareWords(wrong, few) == nil {
			t.Errorf("the rule accepts %v as the glossary of %v", wrong, few)
		}
	}
	if wrong := compareWords(map[string][]string{"task": {"a.Task", "b.task"}}, few); wrong != nil {
		t.Error(wrong)
	}
}

// glossary reads the types of each word. A row without a word belongs to the last one.
func glossary(table string) map[string][]string {
	words, last := map[string][]string{}, ""
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		if word := strings.Trim(cells[1], " `"); word != "" {
			last = word
		}
		for _, m := range typeInGlossary.FindAllStringSubmatch(cells[2], -1) {
			words[last] = append(words[last], m[1])
		}
	}
	return words
}

// compareWords returns the differences between words and types.
func compareWords(words map[string][]string, types map[string]bool) (findings []string) {
	for _, word := range slices.Sorted(maps.Keys(words)) {
		for _, named := range words[word] {
			_, name, _ := strings.Cut(named, ".")
			if !types[named] || !isNamed(name, word) {
				findings = append(findings, fmt.Sprintf("%s has %s for %q, no type of that name", glossaryPage, named, word))
			}
		}
		for _, there := range slices.Sorted(maps.Keys(types)) {
			_, name, _ := strings.Cut(there, ".")
			if isNamed(name, word) && !slices.Contains(words[word], there) {
				findings = append(findings, fmt.Sprintf("%s is not in %s, under %q", there, glossaryPage, word))
			}
		}
	}
	return findings
}

// isNamed reports whether a type has the name of a term, which may have two words.
func isNamed(name, word string) bool {
	return strings.EqualFold(name, strings.ReplaceAll(word, " ", ""))
}

// typesOf returns the types of production code, with their packages.
func typesOf(tree []source) map[string]bool {
	types := map[string]bool{}
	for _, s := range tree {
		if s.syntax == nil || strings.HasSuffix(s.path, "_test.go") ||
			slices.Contains([]string{"test", "tools", "examples"}, s.layer()) {
			continue
		}
		for _, d := range s.syntax.Decls {
			group, ok := d.(*ast.GenDecl)
			if !ok {
				continue
			}
			for _, spec := range group.Specs {
				if of, ok := spec.(*ast.TypeSpec); ok {
					types[s.syntax.Name.Name+"."+of.Name.Name] = true
				}
			}
		}
	}
	return types
}
