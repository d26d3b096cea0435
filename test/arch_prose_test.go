// The style rules: the width of Go lines, confusing words, and the beginning of a declaration's comment. They apply to
// every package, including tests.
package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// proseRules lists the rules. Each returns the numbers of the lines with a finding.
var proseRules = []struct {
	find func(source) []int
	what string
}{
	{overlong, fmt.Sprintf("longer than %d columns", maxColumns)},
	{stumbling, "has a word that plain English does without"},
	{misnamed, "does not begin with the name that it documents"},
	{circular, "says that a name is what or those …; say what it does, holds or means"},
}

// proseRule returns one of them as a rule of single files.
func proseRule(i int) func(source) []string {
	return func(s source) []string {
		if s.syntax == nil || ast.IsGenerated(s.syntax) {
			return nil
		}
		var findings []string
		for _, number := range proseRules[i].find(s) {
			findings = append(findings, fmt.Sprintf("%s:%d: %s", s.path, number, proseRules[i].what))
		}
		return findings
	}
}

// overlong returns the lines that are too long. A tab counts as one column, as in the positions that Go reports. Text
// between backquotes does not count, because it is quoted unchanged.
func overlong(s source) []int {
	quoted := map[int]int{} // columns by line
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

// stumble matches words and phrases that comments and texts avoid, because they are archaic or have a plainer word in
// this module.
var stumble = regexp.MustCompile(`(?i)\b(reckons?|anew|deeds?|(tells?|says) whether|so many as|looked at is whether|` +
	`(is|are) (nobody|somebody)('s| else's)|(no|none of its) business of|whose affair|` +
	`(is|are) (the|a|an|its|one) (caller|machine|agent|leader|container|job|task|kernel|image|driver)'s[.,;:)])`)

// stumbling returns the lines of comments and texts with such a word.
func stumbling(s source) []int {
	if s.path == "test/arch_prose_test.go" || s.path == "test/arch_rules_test.go" ||
		s.path == "tools/prose/rules.go" { // These files list the words.
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
		// Deed is a message
		if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING && text.Value != `"Deed"` {
			look(text.Pos(), text.Value)
		}
		return true
	})
	return numbers
}

// misnamed returns the comments of functions and types that do not begin with the name of the declaration, as Go
// requires.
func misnamed(s source) []int {
	return documented(s, func(text, name string) bool {
		first, _, _ := strings.Cut(strings.ReplaceAll(text, "\n", " "), " ")
		first = strings.TrimRight(first, ":,;.")
		return first == "" || strings.TrimSuffix(first, "'s") == name
	})
}

// plainFolders lists the folders whose comments are in plain English: subject, verb, object. The list grows.
var plainFolders = []string{
	"server/", "actors/", "policy/", "topology/", "messages/", "store/", "goodput/", "clock/", "sim/", "cluster/",
	"clients/", "runtime/",
}

// circle matches the beginning of a comment that only paraphrases the name.
var circle = regexp.MustCompile(`^\w+ (is|are) (what|those|who|whom|whoever)\b`)

// circular returns the comments of functions and types with such a beginning, in the folders in plain English.
func circular(s source) []int {
	in := func(folder string) bool { return strings.HasPrefix(s.path, folder) }
	if !s.production() || !slices.ContainsFunc(plainFolders, in) {
		return nil
	}
	return documented(s, func(text, _ string) bool { return !circle.MatchString(text) })
}

// documented returns the lines of the comments of functions and types that are not good.
func documented(s source, good func(text, name string) bool) []int {
	var numbers []int
	look := func(doc *ast.CommentGroup, name string) {
		if doc != nil && !good(doc.Text(), name) {
			numbers = append(numbers, s.fset.Position(doc.Pos()).Line)
		}
	}
	for _, declaration := range s.syntax.Decls {
		switch d := declaration.(type) {
		case *ast.FuncDecl:
			look(d.Doc, d.Name.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				if spec, is := spec.(*ast.TypeSpec); is && len(d.Specs) == 1 {
					look(d.Doc, spec.Name.Name)
				}
			}
		}
	}
	return numbers
}
