// The rule of host paths: only runtime/hostpath opens a path that a job names on a node. The rule reads only the
// syntax, so it follows a job's text through variables of one function.
package test

import (
	"fmt"
	"go/ast"
	"slices"
	"strings"
)

// jobWords lists the getters of a job's paths.
var jobWords = []string{"GetSource", "GetWorkdir", "GetSubmitDir", "GetImage"}

// openers lists the packages that resolve a path. Functions that only look at the text are allowed.
var (
	openers  = []string{"os", "syscall", "golang.org/x/sys/unix", "path/filepath", "os/exec", "io/ioutil"}
	textOnly = []string{"IsAbs", "Clean", "Join", "Base", "Dir"}
)

// hostPathRule: no path of a job reaches a call that would resolve it with the agent's permissions.
func hostPathRule(s source) []string {
	if !s.production() || s.layer() != "runtime" || strings.HasPrefix(s.path, "runtime/hostpath/") {
		return nil
	}
	var findings []string
	for _, declaration := range s.syntax.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok || function.Body == nil {
			continue
		}
		words := jobVariables(function.Body)
		ast.Inspect(function.Body, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || !s.opens(call) {
				return true
			}
			for _, argument := range call.Args {
				if ofJob(argument, words) {
					findings = append(findings, fmt.Sprintf("%s: a path that a job names is opened by runtime/hostpath alone",
						s.at(call.Pos())))
				}
			}
			return true
		})
	}
	return findings
}

// opens reports whether a call resolves a path.
func (s source) opens(call *ast.CallExpr) bool {
	selector, ok := call.Fun.(*ast.SelectorExpr)
	return ok && slices.Contains(openers, s.imported(selector)) && !slices.Contains(textOnly, selector.Sel.Name)
}

// jobVariables returns the variables of a function that hold a job's paths.
func jobVariables(body *ast.BlockStmt) []string {
	var names []string
	ast.Inspect(body, func(n ast.Node) bool {
		assign, ok := n.(*ast.AssignStmt)
		if !ok {
			return true
		}
		for i, value := range assign.Rhs {
			if name, ok := assign.Lhs[min(i, len(assign.Lhs)-1)].(*ast.Ident); ok && ofJob(value, names) {
				names = append(names, name.Name)
			}
		}
		return true
	})
	return names
}

// ofJob reports whether an expression contains a job's path that was not passed to runtime/hostpath.
func ofJob(expression ast.Expr, words []string) bool {
	found := false
	ast.Inspect(expression, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if selector, ok := n.Fun.(*ast.SelectorExpr); ok {
				if at, ok := selector.X.(*ast.Ident); ok && at.Name == "door" {
					return false
				}
				found = found || slices.Contains(jobWords, selector.Sel.Name)
			}
		case *ast.Ident:
			found = found || slices.Contains(words, n.Name)
		case *ast.BinaryExpr:
			return n.Op.String() == "+" // a comparison is no path
		}
		return true
	})
	return found
}
