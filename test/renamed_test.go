package test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages/renamed"
)

// This file tests that a renamed name does not return as a flag, a key, a column, a label, a metric, or in the code
// spans of a page. It also compares the page of renamed names with the table.

const renamedPage = "docs/operate/renamed.md"

// outputs lists the structs that are printed as JSON or YAML, by their name in the table.
var outputs = map[string]struct {
	files string
	types []string
}{
	"Job":          {"cmd/synapse-cli/internal/show/*.go", []string{"jobStatus", "attempt", "rankObj", "startObj"}},
	"Node":         {"cmd/synapse-cli/internal/show/*.go", []string{"nodeMeta", "placeObj", "nodeStatus"}},
	"History":      {"cmd/synapse-cli/internal/show/*.go", []string{"pastObj", "pastAttemptObj"}},
	"HistorySums":  {"cmd/synapse-cli/internal/show/*.go", []string{"sumObj"}},
	"Event":        {"cmd/synapse-cli/internal/show/*.go", []string{"eventObj"}},
	"Token":        {"cmd/synapse-cli/internal/show/*.go", []string{"passObj"}},
	"Context":      {"cmd/synapse-cli/internal/show/*.go", []string{"Context"}},
	"Comparison":   {"cmd/synapse-cli/internal/show/*.go", []string{"comparison"}},
	"Trial":        {"cmd/synapse-cli/submit.go", []string{"trial"}},
	"Whoami":       {"cmd/synapse-cli/whoami.go", []string{"whoObj"}},
	"Examination":  {"cmd/internal/doctor/doctor.go", []string{"Finding"}},
	"Notification": {"server/notifications/notifications.go", []string{"Notification", "AboutJob", "AboutMachine"}},
	"Simulation":   {"cmd/synapse-cli/internal/show/replay.go", []string{"policyMeans", "Mean"}},
	"Simulation ":  {"sim/record/order.go", []string{"Result", "IdleParts"}},
}

// keyFiles lists the sources that define the keys of a file.
var keyFiles = map[string]string{
	renamed.SchedulerFile: "cmd/synapse-scheduler/policy.go", renamed.NodeFile: "cmd/synapse-node/health.go",
	renamed.QueuesFile: "clients/go/jobfile/queues*.go", renamed.HostsFile: "cmd/synapse-cli/internal/rollout/hosts.go",
}

// last returns the last part of a path with dots.
func last(path string) string { return path[strings.LastIndex(path, ".")+1:] }

// sources parses the Go files of a pattern, without tests.
func sources(t *testing.T, pattern string) (files []*ast.File) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(root, pattern))
	if err != nil || len(names) == 0 {
		t.Fatalf("%s: no files found (%v)", pattern, err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, parsed(t, string(text)))
	}
	return files
}

func parsed(t *testing.T, text string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "", text, 0)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// literals returns the strings of a file, without import paths and tags.
func literals(file *ast.File) (all []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// tags returns the JSON names of the fields of some structs.
func tags(file *ast.File, types []string) (all []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		spec, is := n.(*ast.TypeSpec)
		if !is || !slices.Contains(types, spec.Name.Name) {
			return true
		}
		fields, is := spec.Type.(*ast.StructType)
		if !is {
			return true
		}
		for _, f := range fields.Fields.List {
			if f.Tag != nil {
				name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
				all = append(all, name)
			}
		}
		return true
	})
	return all
}

// oldIn returns the old names of a kind and place that are among the names. It skips a name that is also a new one
// there.
func oldIn(kind renamed.Kind, in string, names []string) (wrong []string) {
	now := map[string]bool{}
	for _, n := range renamed.All() {
		if n.Kind == kind && (in == "" || n.In == in) {
			now[last(n.New)] = true
		}
	}
	for _, n := range renamed.All() {
		old := last(n.Old)
		if n.Kind == kind && (in == "" || n.In == in) && !now[old] && slices.Contains(names, old) {
			wrong = append(wrong, fmt.Sprintf("%s %s of %s is now %s", kind, n.Old, n.In, n.New))
		}
	}
	return wrong
}

// TestRenamedNames checks that no program, file, output or metric has an old name.
func TestRenamedNames(t *testing.T) {
	var wrong []string
	for _, n := range renamed.All() {
		if n.Kind != renamed.Flag {
			continue
		}
		program, command, sub := strings.Cut(n.In, " ")
		pattern := "cmd/" + program + "/*.go"
		if sub {
			pattern = "cmd/" + program + "/" + command + ".go"
		}
		for _, file := range sources(t, pattern) {
			wrong = append(wrong, oldFlags(file, n.Old)...)
		}
	}
	for in, o := range outputs {
		for _, file := range sources(t, o.files) {
			wrong = append(wrong, oldIn(renamed.JSON, strings.TrimSpace(in), tags(file, o.types))...)
		}
	}
	for in, pattern := range keyFiles {
		for _, file := range sources(t, pattern) {
			wrong = append(wrong, oldIn(renamed.YAML, in, literals(file))...)
		}
	}
	for _, file := range sources(t, "cmd/synapse-cli/internal/show/*.go") {
		wrong = append(wrong, oldIn(renamed.Column, "", literals(file))...)
		wrong = append(wrong, oldIn(renamed.Label, "", literals(file))...)
	}
	for _, file := range sources(t, "server/notifications/*.go") {
		wrong = append(wrong, oldIn(renamed.Value, "notify.*.on", literals(file))...)
	}
	for name, f := range families() {
		wrong = append(wrong, oldIn(renamed.Metric, "", []string{name})...)
		wrong = append(wrong, oldIn(renamed.Series, name, f.Labels)...)
	}
	slices.Sort(wrong)
	for _, text := range slices.Compact(wrong) {
		t.Error(text)
	}
}

// oldFlags finds definitions of a flag: calls of the flag set whose first string is its name.
func oldFlags(file *ast.File, old string) (wrong []string) {
	ast.Inspect(file, func(n ast.Node) bool {
		call, is := n.(*ast.CallExpr)
		if !is {
			return true
		}
		what, is := call.Fun.(*ast.SelectorExpr)
		if !is || !strings.Contains(what.Sel.Name, "Var") {
			return true
		}
		for _, arg := range call.Args {
			if l, is := arg.(*ast.BasicLit); is && l.Value == strconv.Quote(old) {
				wrong = append(wrong, "flag --"+old)
			}
		}
		return true
	})
	return wrong
}

var codeSpan = regexp.MustCompile("(?s)```.*?```|`[^`\n]+`")

// spanWords returns the old names whose form distinguishes them from ordinary words, with their replacements.
func spanWords() map[string]string {
	words := map[string]string{}
	kept := map[string]bool{"timeLimit": true}
	for _, n := range renamed.All() {
		kept[last(n.New)] = true
	}
	for _, n := range renamed.All() {
		old := last(n.Old)
		odd := strings.ContainsAny(old, "_") || strings.ToLower(old) != old && strings.ToUpper(old) != old
		switch {
		case n.Kind == renamed.HTTP || n.Kind == renamed.Series || n.Kind == renamed.Label || n.Kind == renamed.Value:
		case n.Kind == renamed.Column && !strings.Contains(old, " ") && len(old) > 3:
			words[old] = n.New
		case n.Kind == renamed.Flag && old != "policy" && old != "patience":
			words["--"+old] = "--" + n.New
		case n.Kind == renamed.YAML && !odd && !kept[old] && !slices.Contains([]string{"page", "past", "policy"}, old):
			// a plain word is a key only as a complete code span
			words["`"+old+"`"] = "`" + last(n.New) + "`"
		case odd && !kept[old] && n.Kind != renamed.Column:
			words[old] = last(n.New)
		}
	}
	// words that other tables also use
	for _, shared := range []string{"MADE", "UNTIL", "STOPS", "WAITS", "SHOWS"} {
		delete(words, shared)
	}
	return words
}

// oldSpans finds old names in the code spans of a page.
func oldSpans(text string, words map[string]string) (wrong []string) {
	for _, span := range codeSpan.FindAllString(text, -1) {
		for old, now := range words {
			at := regexp.MustCompile(`(^|[^\w-])` + regexp.QuoteMeta(old) + `($|[^\w-])`)
			if at.MatchString(span) {
				wrong = append(wrong, fmt.Sprintf("%s is now %s: %.60s", old, now, span))
			}
		}
	}
	return wrong
}

// TestRenamedInPages checks that no code span of a page has an old name. Reports are exempt, because they describe
// their date.
func TestRenamedInPages(t *testing.T) {
	words := spanWords()
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, d os.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		if err != nil || filepath.Ext(path) != ".md" || strings.HasPrefix(rel, "docs/reports/") || rel == renamedPage {
			return err
		}
		text, err := os.ReadFile(path)
		for _, wrong := range oldSpans(string(text), words) {
			t.Errorf("%s: %s", rel, wrong)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// oldTexts finds the old names of flags, variables and keys in the strings of a program.
func oldTexts(texts []string) (wrong []string) {
	words, names := spanWords(), []string(nil)
	for old := range words {
		column := strings.ToUpper(old) == old && !strings.HasPrefix(old, "SYNAPSE_")
		if !column {
			names = append(names, regexp.QuoteMeta(old))
		}
	}
	slices.Sort(names)
	at := regexp.MustCompile(`(?:^|[^\w-])(` + strings.Join(names, "|") + `)(?:$|[^\w-])`)
	for _, text := range texts {
		for _, found := range at.FindAllStringSubmatch(text, -1) {
			wrong = append(wrong, fmt.Sprintf("%s is now %s: %.60q", found[1], words[found[1]], text))
		}
	}
	return wrong
}

// TestRenamedInTexts checks that no string of a program, such as an error, names an old flag or key. The table itself
// is exempt.
func TestRenamedInTexts(t *testing.T) {
	for _, s := range readTree(t) {
		if !s.production() || strings.HasPrefix(s.path, "messages/renamed/") {
			continue
		}
		for _, wrong := range oldTexts(literals(s.syntax)) {
			t.Errorf("%s: %s", s.path, wrong)
		}
	}
}

// TestRenamedIsSeen checks that each check finds an old name that is planted.
func TestRenamedIsSeen(t *testing.T) {
	file := parsed(t, "package x\ntype jobStatus struct { A bool `json:\"debts\"`; B bool `json:\"finished\"` }\n"+
		"var c = []string{\"SLICES\", \"Told first\", \"keepMost\"}\nfunc f() { g.StringVar(&x, \"past\", \"\", \"\") }\n")
	words := literals(parsed(t, "package x\nvar c = []string{\"SLICES\", \"Told first\", \"keepMost\", \"most\"}"))
	for what, got := range map[string][]string{
		"key":               oldIn(renamed.JSON, "Job", tags(file, []string{"jobStatus"})),
		"column":            oldIn(renamed.Column, "", words),
		"label":             oldIn(renamed.Label, "", words),
		"yaml":              oldIn(renamed.YAML, renamed.SchedulerFile, words),
		"metric":            oldIn(renamed.Metric, "", []string{"synapse_machines"}),
		"label of a metric": oldIn(renamed.Series, "synapse_jobs_planned", []string{"firm"}),
		"flag":              oldFlags(file, "past"),
		"text":              oldTexts([]string{"needs a certificate (--page-cert)", "a past page"}),
		"text with a key":   oldTexts([]string{"The file has `machines` and `nodes`, for machines."}),
		"span with a key":   oldSpans("The file has `machines` and `nodes`, for `the machines`.", spanWords()),
		"span":              oldSpans("Set `keepMost: 3h`, or headroom.", spanWords()),
	} {
		if len(got) != 1 {
			t.Errorf("%s: found %q", what, got)
		}
	}
	if got := oldSpans("Set `maxReservation`, `--time-limit` and headroom.", spanWords()); len(got) != 0 {
		t.Errorf("found %q", got)
	}
}

// TestRenamedPage checks that the page consists of its introduction and the table. `go test ./test -run RenamedPage
// -rewrite` writes it.
func TestRenamedPage(t *testing.T) {
	var page bytes.Buffer
	introduction, err := os.ReadFile("testdata/renamed.md")
	if err != nil {
		t.Fatal(err)
	}
	page.Write(introduction)
	for _, kind := range renamed.Kinds {
		var rows []string
		for _, n := range renamed.All() {
			if n.Kind == kind {
				rows = append(rows, fmt.Sprintf("| %s | `%s` | `%s` |\n", n.In, n.Old, n.New))
			}
		}
		if rows == nil {
			continue
		}
		title := strings.ToUpper(string(kind[:1])) + string(kind[1:])
		fmt.Fprintf(&page, "\n## %s\n\n| Where | Old name | New name |\n|---|---|---|\n%s", title, strings.Join(rows, ""))
	}
	path := filepath.Join(root, renamedPage)
	if *rewrite {
		if err := os.WriteFile(path, page.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if there, err := os.ReadFile(path); err != nil || !bytes.Equal(there, page.Bytes()) {
		t.Errorf("%s differs from the table (%v): run go test ./test -run RenamedPage -rewrite", renamedPage, err)
	}
}
