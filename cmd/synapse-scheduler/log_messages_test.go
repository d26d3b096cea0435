package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// This file checks that the programs log each line of docs/reference/log-messages.md, and that synapse-scheduler
// has each flag that a page names.

var (
	logged = regexp.MustCompile("(?m)^\\| `(.+?)` \\|")
	verb   = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)
	flags  = regexp.MustCompile("(?m)^synapse-scheduler (.*)$")
	named  = regexp.MustCompile(`--([a-z-]+)`)
)

// written returns the texts in the programs, with … for variable parts.
func written(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, room := range []string{"actors", "cluster", "server", "runtime", "cmd/synapse-scheduler", "cmd/synapse-node"} {
		err := filepath.WalkDir(filepath.Join("../..", room), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
			if err != nil {
				return err
			}
			ast.Inspect(file, func(n ast.Node) bool {
				if e, is := n.(ast.Expr); is {
					if text, ok := joined(e); ok {
						all = append(all, verb.ReplaceAllString(text, "…"))
						return false
					}
				}
				return true
			})
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// joined returns a string constant that may consist of several parts. ok reports whether the expression is one.
func joined(e ast.Expr) (text string, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, is := joined(e.X)
		right, also := joined(e.Y)
		return left + right, is && also && e.Op == token.ADD
	}
	return "", false
}

// tags matches the tags of log lines above the level of information.
var tags = regexp.MustCompile(`^\[(WARN|ERROR|GRPC)\] `)

func TestLogMessagesPageIsTrue(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/log-messages.md")
	if err != nil {
		t.Fatal(err)
	}
	texts := written(t)
	lines := logged.FindAllStringSubmatch(string(page), -1)
	if len(lines) < 70 {
		t.Fatalf("only %d lines were found on the page", len(lines))
	}
	for _, m := range lines {
		line := tags.ReplaceAllString(m[1], "") // the host adds the tag
		if rest, is := strings.CutPrefix(line, "this scheduler no longer leads"); is {
			line = "…" + rest // the first words come from another error
		}
		if !slices.ContainsFunc(texts, func(text string) bool { return strings.HasPrefix(text, line) }) {
			t.Errorf("no program writes %q", m[1])
		}
	}
}

// TestPagesNameSchedulerFlags checks each flag of a scheduler command in all pages.
func TestPagesNameSchedulerFlags(t *testing.T) {
	found := 0
	known := command()
	for _, pattern := range []string{"../../docs/*.md", "../../docs/*/*.md"} {
		pages, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range pages {
			page, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range flags.FindAllStringSubmatch(string(page), -1) {
				for _, flag := range named.FindAllStringSubmatch(m[1], -1) {
					found++
					if known.Flags().Lookup(flag[1]) == nil {
						t.Errorf("%s: there is no flag --%s: %s", path, flag[1], m[0])
					}
				}
			}
		}
	}
	if found < 12 {
		t.Errorf("only %d flags were found on the pages", found)
	}
}
