package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// This file finds the texts that people read.

// surface is where a reader meets a sentence.
type surface string

const (
	docs     surface = "docs"
	archive  surface = "archive" // a dated log, kept as it was written
	help     surface = "help"
	web      surface = "web"
	errs     surface = "error"
	comments surface = "comment"
)

// sampled lists the surfaces that -sample draws from.
var sampled = []surface{docs, help, web, errs, comments}

// errorAreas lists the folders whose errors, hints and outcomes are counted, because users meet them.
var errorAreas = []string{"cmd/", "clients/", "server/", "messages/", "actors/leader/intake/"}

// counted reports whether the patterns are counted in a sentence. The rules of ./test check comments.
func (s sentence) counted() bool {
	if s.surface == errs {
		return slices.ContainsFunc(errorAreas, func(area string) bool { return strings.HasPrefix(s.file, area) })
	}
	return s.surface == docs || s.surface == help || s.surface == web
}

// sentence is one sentence, cell, label or line of help.
type sentence struct {
	file    string
	line    int
	surface surface
	text    string
}

// archived lists pages that are kept as they were written.
var archived = []string{"docs/reports/research-log.md"}

// readTexts reads all texts that people read.
func readTexts(root string) (all []sentence, err error) {
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(root, path)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(inside)
		if d.IsDir() {
			if strings.HasPrefix(d.Name(), ".") && name != "." || d.Name() == "testdata" || name == "tools" || name == "bin" ||
				d.Name() == "mutants" {
				return filepath.SkipDir
			}
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		switch {
		case strings.HasSuffix(name, ".md"):
			all = append(all, readMarkdown(name, string(text))...)
		case strings.HasPrefix(name, "server/web/page/") && slices.Contains([]string{".js", ".html"}, filepath.Ext(name)):
			all = append(all, readWeb(name, string(text))...)
		case strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") && !strings.HasSuffix(name, ".pb.go"):
			found, err := readGo(name, text)
			if err != nil {
				return err
			}
			all = append(all, found...)
		}
		return nil
	})
	return all, err
}

var (
	codeSpan  = regexp.MustCompile("``[^`]*``|`[^`]*`")
	link      = regexp.MustCompile(`!?\[([^\]]*)\]\([^)]*\)`)
	htmlNote  = regexp.MustCompile(`<!--.*?-->`)
	markup    = regexp.MustCompile(`\*\*|__|<[^>]*>`)
	quotation = regexp.MustCompile(`“[^”]*”|"[^"]*"`)
	listMark  = regexp.MustCompile(`^\s*(?:[-*+]|\d+\.)\s+|^#+\s+|^>\s?`)
	ends      = regexp.MustCompile(`[.!?:]["”')]*\s+`)
)

// readMarkdown reads the sentences of a page, without code, quotations and addresses.
func readMarkdown(name, text string) (all []sentence) {
	of := docs
	if slices.Contains(archived, name) {
		of = archive
	}
	var paragraph strings.Builder
	began, fenced := 0, false
	flush := func() {
		all = append(all, sentences(name, began, of, paragraph.String())...)
		paragraph.Reset()
	}
	for i, line := range strings.Split(text, "\n") {
		bare := strings.TrimSpace(line)
		switch {
		case strings.HasPrefix(bare, "```"):
			flush()
			fenced = !fenced
		case fenced:
		case bare == "":
			flush()
		case strings.HasPrefix(bare, "|"):
			flush()
			for cell := range strings.SplitSeq(strings.Trim(hideCode(bare), "|"), "|") {
				if strings.Trim(cell, " -:") != "" {
					all = append(all, sentences(name, i+1, of, cell)...)
				}
			}
		default:
			if listMark.MatchString(line) {
				flush()
				bare = listMark.ReplaceAllString(line, "")
			}
			if paragraph.Len() == 0 {
				began = i + 1
			}
			paragraph.WriteString(bare + " ")
		}
	}
	flush()
	return all
}

// hideCode replaces code, so that a bar in it ends no cell.
func hideCode(line string) string { return codeSpan.ReplaceAllString(line, "CODE") }

// sentences splits a text into sentences. It skips code and quotations.
func sentences(name string, line int, of surface, text string) (all []sentence) {
	text = htmlNote.ReplaceAllString(text, "")
	text = link.ReplaceAllString(hideCode(text), "$1")
	text = quotation.ReplaceAllString(markup.ReplaceAllString(text, ""), "QUOTE")
	from := 0
	for _, at := range append(ends.FindAllStringIndex(text, -1), []int{len(text), len(text)}) {
		if one := strings.TrimSpace(text[from:at[1]]); one != "" && (at[0] == len(text) || begins(text[at[1]:])) {
			all = append(all, sentence{name, line, of, strings.Join(strings.Fields(one), " ")})
			from = at[1]
		}
	}
	return all
}

// begins reports whether a sentence may begin with this text.
func begins(rest string) bool {
	return rest == "" || strings.IndexAny(rest[:1], "ABCDEFGHIJKLMNOPQRSTUVWXYZ(“\"") == 0
}

var (
	jsText   = regexp.MustCompile("'([^'\\\\\n]*)'|\"([^\"\\\\\n]*)\"|`([^`]*)`")
	htmlText = regexp.MustCompile(`>([^<>{}]+)<`)
	spoken   = regexp.MustCompile(`[A-Za-z]{2,} [A-Za-z]+`)
	inserted = regexp.MustCompile(`\$\{[^}]*\}`)
)

// readWeb reads the texts of the web UI: text between tags, and strings of two words or more.
func readWeb(name, text string) (all []sentence) {
	pattern := jsText
	if strings.HasSuffix(name, ".html") {
		pattern = htmlText
	}
	for i, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(strings.TrimSpace(line), "//") || strings.HasPrefix(strings.TrimSpace(line), "*") {
			continue
		}
		for _, m := range pattern.FindAllStringSubmatch(line, -1) {
			one := inserted.ReplaceAllString(strings.Join(m[1:], ""), "X")
			if spoken.MatchString(one) && !strings.ContainsAny(one, "<>{}=") {
				all = append(all, sentences(name, i+1, web, one)...)
			}
		}
	}
	return all
}

var (
	flagCall  = regexp.MustCompile(`^(?:String|Bool|Int|Int32|Int64|Uint\d*|Duration|Float64|StringSlice|StringArray|Count|Func)?(?:Var)?P?F?$`)
	errorCall = regexp.MustCompile(`^(?:Errorf|New|Usage|Hint|Reply|Warn|Info|Error|Fail|say|invalid|refuse|Refuse|refusal|` +
		`unavailable|RefuseScope)$`)
	errorKey = []string{"Text", "Hint", "Why", "Detail", "Reason", "Outcome"}
	helpKey  = []string{"Short", "Long"}
)

// tableRow matches the beginning of a row of a table in help. The row is indented by two columns, and its further lines
// by more.
var tableRow = regexp.MustCompile(`\n {2}(\S)`)

// readGo reads help, errors and doc comments of a file.
func readGo(name string, text []byte) (all []sentence, err error) {
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, text, parser.ParseComments)
	if err != nil || ast.IsGenerated(file) {
		return nil, err
	}
	add := func(at token.Pos, of surface, text string) {
		line := fset.Position(at).Line
		if of == help {
			text = tableRow.ReplaceAllString(text, "\n\n$1")
		}
		for paragraph := range strings.SplitSeq(text, "\n\n") {
			all = append(all, sentences(name, line, of, strings.ReplaceAll(paragraph, "\n", " "))...)
		}
	}
	inCommand := strings.HasPrefix(name, "cmd/")
	ast.Inspect(file, func(node ast.Node) bool {
		switch n := node.(type) {
		case *ast.KeyValueExpr:
			key, _ := n.Key.(*ast.Ident)
			if key == nil {
				return true
			}
			said, ok := stringOf(n.Value)
			switch {
			case !ok || said == "":
			case inCommand && slices.Contains(helpKey, key.Name):
				add(n.Pos(), help, said)
			case slices.Contains(errorKey, key.Name):
				add(n.Pos(), errs, said)
			}
		case *ast.CallExpr:
			called := calledName(n)
			if len(n.Args) == 0 {
				return true
			}
			if last, ok := stringOf(n.Args[len(n.Args)-1]); ok && inCommand && len(n.Args) >= 3 && called != "" &&
				flagCall.MatchString(called) && spoken.MatchString(last) {
				add(n.Pos(), help, last)
				return true
			}
			for _, arg := range n.Args {
				if said, ok := stringOf(arg); ok && errorCall.MatchString(called) && spoken.MatchString(said) {
					add(arg.Pos(), errs, said)
				}
			}
		case *ast.FuncDecl:
			add(n.Pos(), comments, n.Doc.Text())
		case *ast.GenDecl:
			add(n.Pos(), comments, n.Doc.Text())
		}
		return true
	})
	return all, nil
}

// calledName returns the name of the function that is called.
func calledName(call *ast.CallExpr) string {
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		return f.Sel.Name
	case *ast.Ident:
		return f.Name
	}
	return ""
}

// stringOf returns the text of a string, or of several that are joined. It omits parts that are no constants.
func stringOf(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind != token.STRING {
			return "", false
		}
		said, err := strconv.Unquote(e.Value)
		return said, err == nil
	case *ast.BinaryExpr:
		if e.Op != token.ADD {
			return "", false
		}
		left, okLeft := stringOf(e.X)
		right, okRight := stringOf(e.Y)
		return left + right, okLeft || okRight
	case *ast.CallExpr:
		if calledName(e) == "Sprintf" && len(e.Args) > 0 {
			return stringOf(e.Args[0])
		}
	}
	return "", false
}

// String returns a sentence in the form of a list.
func (s sentence) String() string { return fmt.Sprintf("%s:%d: %s", s.file, s.line, s.text) }
