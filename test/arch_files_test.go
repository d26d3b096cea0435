// The rules of how a file looks: its lengths, its opening and its words. Each is a pure function of one file.
package test

import (
	"fmt"
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"slices"
	"strings"
)

// functionLengthRule counts from the word func to the closing brace; literals inside count with it.
func functionLengthRule(s source) []string {
	if !s.production() {
		return nil
	}
	var findings []string
	for _, declaration := range s.syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		lines := s.fset.Position(function.End()).Line - s.fset.Position(function.Pos()).Line + 1
		if lines > maxFunctionLines {
			findings = append(findings, fmt.Sprintf("%s: %s has %d lines, at most %d",
				s.at(function.Pos()), function.Name.Name, lines, maxFunctionLines))
		}
	}
	return findings
}

// fileLengthRule holds for tests too: a reader looks for one thing there as well.
func fileLengthRule(s source) []string {
	if lines := strings.Count(s.text, "\n"); s.syntax != nil && !ast.IsGenerated(s.syntax) && lines > maxFileLines {
		return []string{fmt.Sprintf("%s: %d lines, at most %d", s.path, lines, maxFileLines)}
	}
	return nil
}

// openingRule: a file says what it owns before anything else: above the package clause, on its own around the imports,
// or as the comment of the type that it opens with, as an actor's file does. A build constraint, or the comment of a
// first constant or function, says nothing of the kind.
func openingRule(s source) []string {
	if !s.production() {
		return nil
	}
	end := s.syntax.End()
	for _, declaration := range s.syntax.Decls {
		if general, ok := declaration.(*ast.GenDecl); ok && general.Tok == token.IMPORT {
			continue
		}
		end = declaration.Pos()
		doc, isType := declarationDoc(declaration)
		if doc != nil && !isType {
			end = doc.Pos()
		}
		break
	}
	for _, comment := range s.syntax.Comments {
		if comment.Pos() < end && strings.TrimSpace(comment.Text()) != "" { // Text leaves directives out.
			return nil
		}
	}
	return []string{s.path + ": opens without a word on what it owns"}
}

// packageCommentRule: what stands above a package clause is shown as what the whole package is for. What a file owns
// stands below the clause.
func packageCommentRule(s source) []string {
	if !s.production() || s.syntax.Doc.Text() == "" { // Text leaves directives out.
		return nil
	}
	name := s.syntax.Name.Name
	begins := "Package " + name + " "
	if name == "main" {
		begins = "Command " + path.Base(path.Dir(s.path)) + " "
	}
	if strings.HasPrefix(strings.ReplaceAll(s.syntax.Doc.Text(), "\n", " "), begins) {
		return nil
	}
	return []string{fmt.Sprintf("%s: the comment above the package clause does not begin with %q; "+
		"what a file owns stands below", s.path, begins)}
}

// declarationDoc is the comment that belongs to a declaration, and whether that is a type.
func declarationDoc(declaration ast.Decl) (doc *ast.CommentGroup, isType bool) {
	switch declaration := declaration.(type) {
	case *ast.GenDecl:
		return declaration.Doc, declaration.Tok == token.TYPE
	case *ast.FuncDecl:
		return declaration.Doc, false
	}
	return nil, false
}

// packageNameRule: a package is a noun of the domain.
func packageNameRule(s source) []string {
	if s.syntax == nil {
		return nil
	}
	banned := []string{"util", "utils", "common", "manager", "managers", "helper", "helpers", "misc", "base"}
	if name := s.syntax.Name.Name; slices.Contains(banned, name) {
		return []string{fmt.Sprintf("%s: package %s says nothing about what it holds", s.path, name)}
	}
	return nil
}

// unfinished is in two pieces, or this file would break its own rule.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// unfinishedRule: what is left to do is in the tracker, where somebody sees it.
func unfinishedRule(s source) []string {
	if ext := path.Ext(s.path); ext != ".go" && ext != ".proto" && ext != ".sh" {
		return nil
	}
	var findings []string
	for i, line := range strings.Split(s.text, "\n") {
		if word := unfinished.FindString(line); word != "" {
			findings = append(findings, fmt.Sprintf("%s:%d: %s", s.path, i+1, word))
		}
	}
	return findings
}

// elsewhere are folders of a workplace, in pieces for the same reason.
var elsewhere = regexp.MustCompile(`(^|[^\w.])/wor` + `k/|\.\./shar` + `ed\b`)

// tag is how a line of a log begins that users know by it.
var tag = regexp.MustCompile("^[\"`]\\[[A-Z]+\\] ")

// tagsRule: what a line of the log is tagged with, the log knows by its level.
func tagsRule(s source) []string {
	if !s.production() || s.path == "actors/log.go" {
		return nil
	}
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		if text, ok := node.(*ast.BasicLit); ok && text.Kind == token.STRING && tag.MatchString(text.Value) {
			findings = append(findings, fmt.Sprintf("%s: a line is tagged by its level, as with Warn or Error",
				s.at(text.Pos())))
		}
		return true
	})
	return findings
}

// placesRule: nothing committed points at a folder that a clone does not have.
func placesRule(s source) []string {
	var findings []string
	for i, line := range strings.Split(s.text, "\n") {
		if elsewhere.MatchString(line) {
			findings = append(findings, fmt.Sprintf("%s:%d: names a place outside the repository", s.path, i+1))
		}
	}
	return findings
}
