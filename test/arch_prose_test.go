// The law of how wide a line of Go may be. It holds in every room that is not in the list of those left to do, and each
// of those may only come nearer to it: what a room has too much of is a ceiling.
package test

import (
	"fmt"
	"go/ast"
	"path"
	"strings"
	"testing"
	"unicode/utf8"
)

// longLines are the rooms that have lines too long, and how many at most. A number here may only fall; a room without
// any leaves the list. A new room is never written into it.
var longLines = map[string]int{
	"actors":          10,
	"actors/leader":   115,
	"actors/mirror":   34,
	"actors/worker":   30,
	"cluster":         73,
	"cmd/synapse-cli": 381,
	"policy":          30,
	"sim":             140,
	"sim/replay":      30,
	"topology":        93,
}

// ceilingOf is the room of that list in which a folder is, or "" where the law holds.
func ceilingOf(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, ok := longLines[folder]; ok {
			return folder
		}
	}
	return ""
}

// overlong are the numbers of the lines that are too long. A tab is one column, as it is where Go says at which column
// something stands. What stands between backquotes is quoted as it is and does not count.
func overlong(s source) []int {
	if s.syntax == nil || ast.IsGenerated(s.syntax) {
		return nil
	}
	quoted := map[int]int{} // columns, by line
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && strings.HasPrefix(text.Value, "`") {
			first := s.fset.Position(text.Pos()).Line
			for i, line := range strings.Split(text.Value, "\n") {
				quoted[first+i] += utf8.RuneCountInString(line)
			}
		}
		return true
	})
	var numbers []int
	for i, line := range strings.Split(s.text, "\n") {
		if utf8.RuneCountInString(line)-quoted[i+1] > maxColumns {
			numbers = append(numbers, i+1)
		}
	}
	return numbers
}

// lineLengthLaw holds for tests too.
func lineLengthLaw(s source) []string {
	if ceilingOf(path.Dir(s.path)) != "" {
		return nil
	}
	var findings []string
	for _, number := range overlong(s) {
		findings = append(findings, fmt.Sprintf("%s:%d: longer than %d columns", s.path, number, maxColumns))
	}
	return findings
}

// TestLongLines keeps the ceilings of the rooms that are left to do.
func TestLongLines(t *testing.T) {
	has := map[string]int{}
	for _, s := range readTree(t) {
		if room := ceilingOf(path.Dir(s.path)); room != "" {
			has[room] += len(overlong(s))
		}
	}
	for room, ceiling := range longLines {
		switch n := has[room]; {
		case n > ceiling:
			t.Errorf("%s: %d lines are longer than %d columns, at most %d were left", room, n, maxColumns, ceiling)
		case n < ceiling:
			t.Logf("%s: %d lines are left; lower its ceiling of %d, or take it off the list", room, n, ceiling)
		}
	}
}
