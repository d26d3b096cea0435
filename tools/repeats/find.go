package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"strings"
)

// This file finds repeats: the same lines of code in two places, whatever the names are.

// atLeast is the minimum number of lines of a repeat. Lines with only brackets belong to their neighbours and do not
// count.
const atLeast = 6

// word is a token: a name, or any other token with its text.
type word struct {
	name bool
	text string
}

// codeLine holds a line of code, without comments.
type codeLine struct {
	number int
	words  []word
	counts bool // the line has more than brackets
}

// function holds the code of one function. Lines are compared only within functions, because fields and imports are
// alike by nature.
type function struct {
	file, name string
	lines      []codeLine
}

func (f *function) String() string { return f.file + ":" + f.name }

// readTree returns every function of production code below a directory, in the order of its files.
func readTree(root string) ([]*function, error) {
	var all []*function
	err := eachFile(root, func(path string, text []byte) error {
		found, err := read(path, text)
		all = append(all, found...)
		return err
	})
	return all, err
}

// eachFile calls do for each file of production code. It omits tests, generated files and tools.
func eachFile(root string, do func(path string, text []byte) error) error {
	return filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		if d.IsDir() {
			if inside != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || inside == "tools" ||
				inside == "test") {
				return filepath.SkipDir
			}
			return nil
		}
		if filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if file, err := parser.ParseFile(token.NewFileSet(), path, text,
			parser.ParseComments|parser.PackageClauseOnly); err != nil || ast.IsGenerated(file) {
			return err
		}
		return do(filepath.ToSlash(inside), text)
	})
}

// read returns the functions of one file.
func read(path string, text []byte) ([]*function, error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	lines := codeLines(text)
	var all []*function
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		first, last := set.Position(fn.Pos()).Line, set.Position(fn.End()).Line
		f := &function{file: path, name: nameOf(fn)}
		for _, l := range lines {
			if l.number >= first && l.number <= last {
				f.lines = append(f.lines, l)
			}
		}
		all = append(all, f)
	}
	return all, nil
}

// nameOf returns a function's name, after its receiver's type.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	if g, ok := t.(*ast.IndexExpr); ok {
		t = g.X
	}
	return fmt.Sprintf("%v.%s", t, fn.Name.Name)
}

// codeLines returns the lines of a file that have code.
func codeLines(text []byte) (lines []codeLine) {
	set := token.NewFileSet()
	file := set.AddFile("", set.Base(), len(text))
	var s scanner.Scanner
	s.Init(file, text, nil, 0)
	for {
		pos, tok, lit := s.Scan()
		if tok == token.EOF {
			return lines
		}
		if tok == token.SEMICOLON && lit == "\n" {
			continue
		}
		number := file.Line(pos)
		if len(lines) == 0 || lines[len(lines)-1].number != number {
			lines = append(lines, codeLine{number: number})
		}
		l := &lines[len(lines)-1]
		w := word{name: tok == token.IDENT, text: cmp.Or(lit, tok.String())}
		l.words = append(l.words, w)
		l.counts = l.counts || w.name || tok.IsLiteral() || tok.IsKeyword()
	}
}

// shape returns a form of lines that is independent of names. Each name is replaced by the number of its first
// occurrence.
func shape(lines []codeLine) string {
	var b strings.Builder
	numbers := map[string]int{}
	for _, l := range lines {
		for _, w := range l.words {
			if !w.name {
				b.WriteString(w.text)
			} else {
				n, known := numbers[w.text]
				if !known {
					n = len(numbers)
					numbers[w.text] = n
				}
				fmt.Fprintf(&b, "#%d", n)
			}
			b.WriteByte(' ')
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// lineRange names lines of a function, without the last one.
type lineRange struct {
	f           *function
	first, last int
}

func (s lineRange) String() string {
	return fmt.Sprintf("%s:%d-%d", s.f, s.f.lines[s.first].number, s.f.lines[s.last-1].number)
}

// window returns the range of atLeast counted lines from a line. It returns false if the function ends before.
func window(f *function, first int) (lineRange, bool) {
	if !f.lines[first].counts {
		return lineRange{}, false
	}
	n := 0
	for i := first; i < len(f.lines); i++ {
		if f.lines[i].counts {
			n++
		}
		if n == atLeast {
			return lineRange{f, first, i + 1}, true
		}
	}
	return lineRange{}, false
}

// repeat is a pair of ranges that look alike.
type repeat struct{ a, b lineRange }

func (r repeat) String() string {
	n := 0
	for _, l := range r.b.f.lines[r.b.first:r.b.last] {
		if l.counts {
			n++
		}
	}
	return fmt.Sprintf("%s and %s: %d lines are alike", r.a, r.b, n)
}

// find returns all repeats among functions with their maximum length. It compares each place of a shape with the first
// one.
func find(all []*function) (found []repeat) {
	first := map[string]lineRange{}
	seen := map[[2]*function]int{} // last line of the second function that a pair already reports
	for _, f := range all {
		for i := range f.lines {
			w, ok := window(f, i)
			if !ok {
				continue
			}
			s := shape(f.lines[w.first:w.last])
			before, known := first[s]
			if !known {
				first[s] = w
				continue
			}
			pair := [2]*function{before.f, f}
			if i < seen[pair] || before.f == f && before.last > w.first {
				continue
			}
			r := grow(repeat{before, w})
			seen[pair] = r.b.last
			found = append(found, r)
		}
	}
	return found
}

// grow extends a repeat by the following lines in both places, as long as they look alike.
func grow(r repeat) repeat {
	for r.a.last < len(r.a.f.lines) && r.b.last < len(r.b.f.lines) {
		a, b := lineRange{r.a.f, r.a.first, r.a.last + 1}, lineRange{r.b.f, r.b.first, r.b.last + 1}
		if shape(a.f.lines[a.first:a.last]) != shape(b.f.lines[b.first:b.last]) || a.f == b.f && a.last > b.first {
			break
		}
		r = repeat{a, b}
	}
	return r
}
