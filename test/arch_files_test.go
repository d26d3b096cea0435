// The rules on the form of a file: its lengths, its opening comment and its words. Each rule is a pure function of one
// file.
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

// functionLengthRule counts from the word func to the closing brace. Function literals inside count as part of the
// function.
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

// fileLengthRule also applies to tests, because readers search them too.
func fileLengthRule(s source) []string {
	if lines := strings.Count(s.text, "\n"); s.syntax != nil && !ast.IsGenerated(s.syntax) && lines > maxFileLines {
		return []string{fmt.Sprintf("%s: %d lines, at most %d", s.path, lines, maxFileLines)}
	}
	return nil
}

// openingRule: a file states its content first. The statement is above the package clause, a separate comment around
// the imports, or the comment of the first type, as in an actor's file. A build constraint, or the comment of a first
// constant or function, does not count.
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
		if comment.Pos() < end && strings.TrimSpace(comment.Text()) != "" { // Text omits directives.
			return nil
		}
	}
	return []string{s.path + ": opens without a word on what it owns"}
}

// packageCommentRule: Go shows the comment above a package clause as the purpose of the whole package. The content of
// one file is stated below the clause.
func packageCommentRule(s source) []string {
	if !s.production() || s.syntax.Doc.Text() == "" { // Text omits directives.
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

// declarationDoc returns the comment of a declaration, and whether the declaration is a type.
func declarationDoc(declaration ast.Decl) (doc *ast.CommentGroup, isType bool) {
	switch declaration := declaration.(type) {
	case *ast.GenDecl:
		return declaration.Doc, declaration.Tok == token.TYPE
	case *ast.FuncDecl:
		return declaration.Doc, false
	}
	return nil, false
}

// packageNameRule: the name of a package is a noun of the domain.
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

// unfinished is split, because this file would otherwise break its own rule.
var unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

// unfinishedRule: open work belongs into the tracker, where it is seen.
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

// elsewhere matches directories of a workplace. It is split for the same reason.
var elsewhere = regexp.MustCompile(`(^|[^\w.])/wor` + `k/|\.\./shar` + `ed\b`)

// tag matches the tag at the beginning of a log line.
var tag = regexp.MustCompile("^[\"`]\\[[A-Z]+\\] ")

// tagsRule: a log line has no tag in its text, because the log adds the tag of its level.
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

// placesRule: no committed file refers to a directory that a clone does not have.
func placesRule(s source) []string {
	var findings []string
	for i, line := range strings.Split(s.text, "\n") {
		if elsewhere.MatchString(line) {
			findings = append(findings, fmt.Sprintf("%s:%d: names a place outside the repository", s.path, i+1))
		}
	}
	return findings
}
