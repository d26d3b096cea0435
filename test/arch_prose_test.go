// The laws of how the house is written: how wide a line of Go may be, which words a stranger would stumble over, and
// how the comment of a declaration begins. They hold in every room that is not in the list of those left to do, and
// each of those may only come nearer to them: what a room has too much of is a ceiling.
package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// prose counts what is wrong with the writing of a room.
type prose struct {
	lines int // longer than maxColumns
	words int // with a word of stumbling
	docs  int // comments that begin elsewhere than with the name
}

// unpolished are the rooms that are left to do, and the most that may be wrong in each. A number here may only fall; a
// room without any leaves the list. A new room is never written into it.
var unpolished = map[string]prose{
	"actors":          {6, 3, 3},
	"actors/leader":   {116, 12, 25},
	"actors/mirror":   {25, 0, 0},
	"actors/worker":   {24, 1, 0},
	"cluster":         {70, 3, 3},
	"cmd/synapse-cli": {360, 6, 0},
	"policy":          {28, 7, 17},
	"sim":             {21, 7, 3},
	"sim/replay":      {23, 4, 2},
	"topology":        {85, 3, 0},
}

// proseLaws are the laws, each with what it finds in a file: numbers of lines.
var proseLaws = []struct {
	of   func(prose) int
	find func(source) []int
	what string
}{
	{func(p prose) int { return p.lines }, overlong, fmt.Sprintf("longer than %d columns", maxColumns)},
	{func(p prose) int { return p.words }, stumbling, "has a word that plain English does without"},
	{func(p prose) int { return p.docs }, misnamed, "does not begin with the name that it documents"},
}

// unpolishedRoom is the room of that list in which a folder is, or "" where the laws hold.
func unpolishedRoom(folder string) string {
	for ; folder != "."; folder = path.Dir(folder) {
		if _, ok := unpolished[folder]; ok {
			return folder
		}
	}
	return ""
}

// proseLaw is one of them as a law of single files. It holds for tests too.
func proseLaw(i int) func(source) []string {
	return func(s source) []string {
		if s.syntax == nil || ast.IsGenerated(s.syntax) || unpolishedRoom(path.Dir(s.path)) != "" {
			return nil
		}
		var findings []string
		for _, number := range proseLaws[i].find(s) {
			findings = append(findings, fmt.Sprintf("%s:%d: %s", s.path, number, proseLaws[i].what))
		}
		return findings
	}
}

// overlong are the lines that are too long. A tab is one column, as it is where Go says at which column something
// stands. What stands between backquotes is quoted as it is and does not count.
func overlong(s source) []int {
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

// stumble is what comments and texts do without: words that are not those of today, the possessive of nothing, and what
// has a plain word that the rest of the house uses.
var stumble = regexp.MustCompile(`(?i)\b(reckons?|anew|deeds?|(tells?|says) whether|so many as|looked at is whether|` +
	`(is|are) (nobody|somebody)('s| else's)|(no|none of its) business of|whose affair|` +
	`(is|are) (the|a|an|its|one) (caller|machine|agent|leader|container|job|task|kernel|image|driver)'s[.,;:)])`)

// stumbling are the lines of comments and texts with such a word.
func stumbling(s source) []int {
	if s.path == "test/arch_prose_test.go" || s.path == "test/arch_laws_test.go" { // They name the words.
		return nil
	}
	var numbers []int
	look := func(pos token.Pos, text string) {
		first := s.fset.Position(pos).Line
		for i, line := range strings.Split(text, "\n") {
			if stumble.MatchString(line) {
				numbers = append(numbers, first+i)
			}
		}
	}
	for _, group := range s.syntax.Comments {
		for _, comment := range group.List {
			look(comment.Pos(), comment.Text)
		}
	}
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING {
			look(text.Pos(), text.Value)
		}
		return true
	})
	return numbers
}

// misnamed are the comments of functions and types that begin with another word than the name of what they document, in
// Go's own way.
func misnamed(s source) []int {
	var numbers []int
	look := func(doc *ast.CommentGroup, name string) {
		first, _, _ := strings.Cut(strings.ReplaceAll(doc.Text(), "\n", " "), " ")
		if first = strings.TrimRight(first, ":,;."); doc != nil && first != "" && strings.TrimSuffix(first, "'s") != name {
			numbers = append(numbers, s.fset.Position(doc.Pos()).Line)
		}
	}
	for _, declaration := range s.syntax.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			look(d.Doc, d.Name.Name)
		case *ast.GenDecl:
			if spec, ok := d.Specs[0].(*ast.TypeSpec); ok && len(d.Specs) == 1 {
				look(d.Doc, spec.Name.Name)
			}
		}
	}
	return numbers
}

// TestUnpolished keeps the ceilings of the rooms that are left to do.
func TestUnpolished(t *testing.T) {
	tree := readTree(t)
	for _, law := range proseLaws {
		has := map[string]int{}
		for _, s := range tree {
			room := unpolishedRoom(path.Dir(s.path))
			if room != "" && s.syntax != nil && !ast.IsGenerated(s.syntax) {
				has[room] += len(law.find(s))
			}
		}
		for room, left := range unpolished {
			switch n, ceiling := has[room], law.of(left); {
			case n > ceiling:
				t.Errorf("%s: %d, where at most %d were left: %s", room, n, ceiling, law.what)
			case n < ceiling:
				t.Logf("%s: %d; lower its ceiling of %d, or take the room off the list: %s", room, n, ceiling, law.what)
			}
		}
	}
}
