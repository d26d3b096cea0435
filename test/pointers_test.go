package test

import (
	"go/ast"
	"path"
	"regexp"
	"strings"
	"testing"
)

// This file keeps the documents' pointers into the code true: whoever reads
// that something happens in a function must find the function there.

// pointer is how the documents name a place: `Type.function` in `folder/file.go`.
var pointer = regexp.MustCompile("`([A-Za-z]+(?:\\.[A-Za-z]+)?)`\\s+in\\s+`([a-z0-9_/]+\\.go)`")

func TestDocumentsPointAtRealFunctions(t *testing.T) {
	functions := map[string]bool{} // "file name"
	var documents []source
	for _, s := range readTree(t) {
		if strings.HasSuffix(s.path, ".md") {
			documents = append(documents, s)
		}
		if s.syntax == nil {
			continue
		}
		for _, d := range s.syntax.Decls {
			if f, is := d.(*ast.FuncDecl); is {
				functions[s.path+" "+qualified(f)] = true
			}
		}
	}
	found := 0
	for _, d := range documents {
		for _, m := range pointer.FindAllStringSubmatch(d.text, -1) {
			found++
			name, beside := m[1], path.Join(path.Dir(d.path), m[2]) // a folder's own page names its files without the folder
			if !functions[m[2]+" "+name] && !functions[beside+" "+name] && !hasMethod(functions, m[2], name) && !hasMethod(functions, beside, name) {
				t.Errorf("%s points at %s in %s, and there is no such function", d.path, name, m[2])
			}
		}
	}
	if found < 40 {
		t.Errorf("only %d pointers were found: the documents, or this test's eyes, have changed", found)
	}
}

// qualified is a function's name, behind its receiver's type where it has one.
func qualified(f *ast.FuncDecl) string {
	if f.Recv == nil || len(f.Recv.List) == 0 {
		return f.Name.Name
	}
	of := f.Recv.List[0].Type
	if star, is := of.(*ast.StarExpr); is {
		of = star.X
	}
	if name, is := of.(*ast.Ident); is {
		return name.Name + "." + f.Name.Name
	}
	return f.Name.Name
}

// hasMethod lets a document leave the type out where the file has one function of that name.
func hasMethod(functions map[string]bool, file, name string) bool {
	if strings.Contains(name, ".") {
		return false
	}
	for f := range functions {
		if strings.HasPrefix(f, file+" ") && strings.HasSuffix(f, "."+name) {
			return true
		}
	}
	return false
}
