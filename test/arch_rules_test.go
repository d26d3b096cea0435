// The rules themselves, in the order in which a newcomer meets them. Each is a pure function of one file.
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

// pureLibrary lists the parts of the standard library that pure packages may use. It is a list of permitted packages,
// so that new packages are examined first. time is permitted for Duration. A separate rule bans calls of the clock.
var pureLibrary = []string{
	"bytes", "cmp", "container/heap", "container/list", "crypto/sha256", "encoding/base32", "encoding/binary",
	"embed", "encoding/hex", "errors", "fmt", "hash", "hash/crc32", "hash/fnv", "hash/maphash", "iter", "maps", "math",
	"math/bits", "net/netip", "path", "regexp", "regexp/syntax", "slices", "sort", "strconv",
	"strings", "time", "unicode", "unicode/utf8",
}

// actorPackages lists the parts of Proto.Actor that are permitted outside actors/: its core, and the parts of a light
// actor system. Its cluster, remote, router, persistence and scheduler contain wall clocks, locks or panics.
var actorPackages = []string{"/actor", "/eventstream"}

// actorBans matches calls of Proto.Actor that wait, use the wall clock, reorder messages or drop their sender.
var actorBans = regexp.MustCompile(`^(RequestFuture|ReenterAfter|SetReceiveTimeout|CancelReceiveTimeout|Stash|` +
	`NewFuture|StopFuture|PoisonFuture|AutoRespond|MessageBatch|Bounded|BoundedDropping|WithContextDecorator|` +
	`NewOneForOneStrategy|NewAllForOneStrategy|NewExponentialBackoffStrategy|NewRestartingStrategy)$`)

// clockCalls lists the parts of package time that read the clock, wait, or use the local time zone.
var clockCalls = []string{
	"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "NewTimer", "NewTicker", "Tick", "Timer", "Ticker",
	"Local", "LoadLocation",
}

const (
	maxFunctionLines = 70  // more does not fit on one screen
	maxFileLines     = 500 // a longer file holds more than one topic
	maxColumns       = 120 // the width of two files next to each other
)

var rules = []archRule{
	{"imports", importsRule, []breach{
		{"topology/x.go", `package topology; import "os"`},
		{"topology/x.go", `package topology; import "` + module + `/topology/belief"`},
		{"topology/belief/x.go", `package belief; import "` + module + `/policy"`},
		{"policy/x.go", `package policy; import "` + module + `/messages"`},
		{"policy/estimate/x.go", `package estimate; import "` + module + `/policy"`},
		{"policy/estimate/x.go", `package estimate; import "` + module + `/messages"`},
		{"policy/estimate/x.go", `package estimate; import "os"`},
		{"policy/share/x.go", `package share; import "` + module + `/policy"`},
		{"policy/share/x.go", `package share; import "` + module + `/policy/preempt"`},
		{"messages/queues/x.go", `package queues; import "` + module + `/policy"`},
		{"policy/preempt/x.go", `package preempt; import "` + module + `/policy"`},
		{"policy/preempt/x.go", `package preempt; import "` + module + `/policy/estimate"`},
		{"policy/heap/x.go", `package heap; import "` + module + `/topology"`},
		{"messages/x.go", `package messages; import "` + module + `/actors"`},
		{"actors/x.go", `package actors; import "sync"`},
		{"actors/x.go", `package actors; import "google.golang.org/grpc"`},
		{"actors/x.go", `package actors; import "` + protobuf + `/encoding/protojson"`},
		{"actors/x.go", `package actors; import . "fmt"`},
		{"actors/deep/x.go", `package deep; import "math/rand/v2"`},
		{"actors/x.go", `package actors; import "` + module + `/actors/leader"`},
		{"actors/x.go", `package actors; import "` + module + `/policy"`},
		{"actors/worker/x.go", `package worker; import "` + module + `/actors/leader"`},
		{"actors/worker/x.go", `package worker; import "` + module + `/policy"`},
		{"actors/leader/x.go", `package leader; import "` + module + `/actors/worker"`},
		{"actors/mirror/x.go", `package mirror; import "` + module + `/actors/leader"`},
		{"actors/leader/rack/x.go", `package rack; import "` + module + `/actors/leader/journal"`},
		{"actors/leader/rack/x.go", `package rack; import "` + module + `/actors/leader"`},
		{"actors/leader/protocol/x.go", `package protocol; import "` + module + `/actors/leader/rack"`},
		{"sim/x.go", `package sim; import "` + module + `/cmd/thing"`},
		{"sim/x.go", `package sim; import "` + module + `/cluster/election"`},
		{"cluster/x.go", `package cluster; import "` + module + `/server/web"`},
		{"cluster/identity/x.go", `package identity; import "` + module + `/server/authn"`},
		{"cluster/link/x.go", `package link; import "` + module + `/server/metrics/machine"`},
		{"runtime/x.go", `package runtime; import "` + module + `/server/web"`},
		{"server/x.go", `package server; import "` + module + `/runtime/launcher"`},
		{"sim/x.go", `package sim; import "` + module + `/clock"`},
		{"actors/x.go", `package actors; import "` + module + `/clock"`},
		{"sim/x.go", `package sim; import "` + protoActor + `/router"`},
		{"cluster/x.go", `package cluster; import "` + protoActor + `/remote"`},
		{"unheard/x.go", `package unheard`},
	}},
	{"clock", clockRule, []breach{
		{"topology/x.go", `package topology; import "time"; var x = time.Now()`},
		{"actors/x.go", `package actors; import clock "time"; var x = clock.NewTimer`},
		{"actors/x.go", `package actors; import "fmt"; func f() { fmt.Println() }`},
		{"policy/x.go", `package policy; import "hash/maphash"; var x = maphash.MakeSeed()`},
		{"policy/preempt/x.go", `package preempt; import "time"; var x = time.Now()`},
	}},
	{"integers", integersRule, []breach{
		{"policy/x.go", `package policy; var x float64`},
		{"policy/estimate/x.go", `package estimate; var x = 0.5`},
		{"topology/x.go", `package topology; func f(a int64) bool { return float32(a) < 1 }`},
		{"topology/belief/x.go", `package belief; var x = 0.5`},
		{"policy/x.go", `package policy; const x = 10 * 1e9`},
		{"policy/x.go", `package policy; import "math"; var x = math.Sqrt(4)`},
		{"policy/x.go", `package policy; import "strconv"; var x, _ = strconv.ParseFloat("1", 64)`},
		{"actors/leader/x.go", `package leader; func f(d Duration) bool { return d.Seconds() > 2 }`},
	}},
	{"concurrency", concurrencyRule, []breach{
		{"actors/x.go", `package actors; func f() { go f() }`},
		{"actors/x.go", `package actors; var x chan int`},
		{"actors/x.go", `package actors; func f() { select {} }`},
		{"policy/x.go", `package policy; func f() { x <- 1 }`},
		{"policy/estimate/x.go", `package estimate; func f() { go f() }`},
		{"policy/x.go", `package policy; func f() { <-x }`},
	}},
	{"protoactor", protoActorRule, []breach{
		{"actors/x.go", `package actors; func f() { ctx.RequestFuture(pid, m, 0) }`},
		{"sim/x.go", `package sim; func f() { ctx.Stash() }`},
		{"cluster/x.go", `package cluster; import "` + protoActor + `/actor"; var x = actor.Bounded(3)`},
	}},
	{"mailboxes", mailboxRule, []breach{
		{"cluster/x_test.go", `package x; import "` + protoActor + `/actor"; var x = actor.PropsFromFunc(f)`},
		{"store/x.go", `package x; import "` + protoActor +
			`/actor"; var x = actor.PropsFromProducer(f, actor.WithDispatcher(d))`},
		{"store/x.go", `package x; import "` + protoActor +
			`/actor"; var x = actor.PropsFromFunc(f, actor.WithMailbox(actor.Unbounded()))`},
		{"test/x_test.go", `package x; import a "` + protoActor + `/actor"; var make = a.PropsFromFunc`},
		{"test/x_test.go", `package x; import "` + protoActor + `/actor"; var x = &actor.Props{}`},
	}},
	{"process", processRule, []breach{
		{"sim/x.go", `package sim; import "flag"`},
		{"store/x.go", `package store; import "os"; func f() { os.Exit(1) }`},
		{"cluster/x.go", `package cluster; import "os"; var x = os.Getenv("HOME")`},
	}},
	{"runtime's insides", insidesRule, []breach{
		{"runtime/carapace/x.go", "package carapace\n\n//go:nosplit\nfunc f() {}\n"},
		{"runtime/carapace/x_test.go", "package carapace\n\nimport _ \"unsafe\"\n\n//go:linkname f syscall.f\nfunc f()\n"},
		{"cmd/carapace/x.go", "package main\n\n//go:norace\nfunc f() {}\n"},
		{"runtime/carapace/fork/x.go", "package fork\n\nimport _ \"unsafe\"\n\n//go:linkname f syscall.f\nfunc f()\n"},
	}},
	{"removal", removalRule, []breach{
		{"runtime/launcher/x.go", `package launcher; import "os"; func f() { os.RemoveAll("scratch") }`},
		{"runtime/image/x.go", `package image; import "os"; var remove = os.RemoveAll`},
	}},
	{"function length", functionLengthRule, []breach{
		{"actors/x.go", "package actors\nfunc f() {\n" + strings.Repeat("\tf()\n", maxFunctionLines) + "}\n"},
	}},
	{"line length", proseRule(0), []breach{
		{"runtime/x.go", "package runtime\n\n// " + strings.Repeat("word ", maxColumns/5) + "\n"},
		{"store/x_test.go", "package store\n\nvar x = `short` + \"" + strings.Repeat("x", maxColumns) + "\"\n"},
	}},
	{"plain words", proseRule(1), []breach{
		{"runtime/x.go", "package runtime\n\n// It tells whether the file is there.\n"},
		{"runtime/x.go", "package runtime // the list is written anew\n"},
		{"store/x_test.go", "package store\n\nvar x = \"what leading means is the caller's, never ours\"\n"},
	}},
	{"doc comments", proseRule(2), []breach{
		{"runtime/x.go", "package runtime\n\n// Here ends a task.\nfunc end() {}\n"},
		{"store/x.go", "package store\n\n// A row of the table.\ntype row struct{}\n"},
	}},
	{"plain comments", proseRule(3), []breach{
		{"server/x.go", "package server\n\n// row is what a table has.\ntype row struct{}\n"},
		{"actors/leader/rack/x.go", "package rack\n\n// rows are those who wait.\nfunc rows() {}\n"},
	}},
	{"file length", fileLengthRule, []breach{
		{"actors/x.go", "package actors\n" + strings.Repeat("// Text.\n", maxFileLines)},
		{"actors/x_test.go", "package actors\n" + strings.Repeat("// Text.\n", maxFileLines)},
	}},
	{"opening", openingRule, []breach{
		{"actors/x.go", "package actors\n\nvar x = 1\n\n// Late.\n"},
		{"actors/x.go", "//go:build linux\n\npackage actors\n"},
		{"actors/x.go", "package actors\n\nimport \"fmt\"\n\ntype t int\n"},
		{"actors/x.go", "package actors\n\nimport \"fmt\"\n\n// Late.\nvar x = fmt.Sprint()\n"},
	}},
	{"package comments", packageCommentRule, []breach{
		{"actors/x.go", "// What is late.\npackage actors\n"},
		{"cmd/thing/x.go", "// Package main is a thing.\npackage main\n"},
	}},
	{"package names", packageNameRule, []breach{
		{"cluster/util/x.go", `package util`},
		{"cluster/helpers/x.go", `package helpers`},
	}},
	{"unfinished", unfinishedRule, []breach{
		{"actors/x.go", "package actors // " + "TO" + "DO: more"},
		{"messages/x.proto", "// " + "FIX" + "ME"},
	}},
	{"host paths", hostPathRule, []breach{
		{"runtime/oci/bad.go",
			"// Package oci is bad.\npackage oci\n\nimport \"os\"\n\nfunc f(s spec) { os.Stat(s.GetWorkdir()) }\n"},
		{
			"runtime/oci/bad.go", "// Package oci is bad.\npackage oci\n\nimport \"os\"\n\n" +
				"func f(m mount) { at := m.GetSource() + \"/x\"; os.Open(at) }\n",
		},
	}},
	{"wall clock", wallRule, []breach{
		{"actors/x.go", `package actors; var x = clock.WallMs()`},
		{"actors/x.go", `package actors; func f() bool { return p.Exit.AtUnixMs < q.Exit.GetAtUnixMs() }`},
		{"cluster/x.go", `package cluster; var x = r.GetFinishedUnixMs() - begunUnixMs`},
		{"runtime/x.go", `package runtime; import "time"; func f() bool { return time.Since(info.ModTime()) > limit }`},
		{"store/x.go", `package store; const x = "SELECT clock_timestamp()"`},
		{"actors/worker/task.go", "package actors // and it is still in the list\n"},
	}},
	{"states", stateRule, []breach{
		{"actors/leader/x.go", `package leader; func f() bool { return j.states.In("queued") }`},
		{"actors/leader/x.go", `package leader; func f() { j.states.Become("queued", "queued") }`},
		{"actors/worker/x.go", `package worker; func f() bool { return n.State() == "member" }`},
		{"actors/worker/x.go", `package worker; var edges = []edge{{"gone", "gone", gone}}`},
		{"cluster/x.go", `package cluster; var x = status.Phase == "timed-out"`},
		{"server/x.go", `package server; var x = status.Phase == "timed-out"`},
	}},
	{"tags", tagsRule, []breach{
		{"actors/leader/x.go", `package leader; func f() { log.Info("[WARN] a fan") }`},
		{"actors/leader/x.go", `package leader; const x = "[GRPC] " + "a call"`},
		{"cluster/link/x.go", `package link; func f() { log.Info("[ERROR] a fan") }`},
	}},
	{"exceptions are counted", gapsRule, []breach{
		{"sim/s99_x.go", `package sim; func (c *x) Step(w *World) { if w.oldVersion() != nil { return } }`},
		{"sim/l99_x.go", `package sim; func (c *x) Step(w *World) { if w.faults.byName["liar"] != nil { return } }`},
	}},
	{"places", placesRule, []breach{
		{"docs/x.md", "see /wor" + "k/main"},
		{"docs/x.md", "see (../shar" + "ed/design)"},
	}},
}

// importsRule: each package imports only what its entry in the table permits, and nothing by dot.
func importsRule(s source) []string {
	if !s.production() || s.layer() == "tools" {
		return nil
	}
	name := packageOf(path.Dir(s.path))
	allowed := packages[name]
	if name == "" {
		return []string{fmt.Sprintf("%s: folder %q is not in the table of packages", s.path, s.layer())}
	}
	var findings []string
	for _, spec := range s.syntax.Imports {
		importPath := strings.Trim(spec.Path.Value, `"`)
		if spec.Name != nil && spec.Name.Name == "." {
			findings = append(findings, fmt.Sprintf("%s: an import by dot hides where names come from", s.at(spec.Pos())))
		}
		if reason := allowed.refuses(name, importPath); reason != "" {
			findings = append(findings, fmt.Sprintf("%s: %s may not import %s: %s", s.at(spec.Pos()), name, importPath, reason))
		}
	}
	return findings
}

// refuses returns why a package may not import a path, or an empty string.
func (r packageRule) refuses(name, importPath string) string {
	if ours, isOurs := strings.CutPrefix(importPath, module+"/"); isOurs {
		target := packageOf(ours)
		first, _, _ := strings.Cut(ours, "/")
		within, _, _ := strings.Cut(name, "/")
		if target == name || slices.Contains(r.ours, target) || slices.Contains(r.ours, ours) ||
			first != within && slices.Contains(r.ours, first) {
			return ""
		}
		return "the layers forbid it"
	}
	first, _, _ := strings.Cut(importPath, "/")
	if !strings.Contains(first, ".") { // Only the standard library has no domain in its paths.
		if r.pure && !slices.Contains(pureLibrary, importPath) {
			return "not on the list of what has no clock, I/O, randomness or locking"
		}
		return ""
	}
	within := func(prefix string) bool { return importPath == prefix || strings.HasPrefix(importPath, prefix+"/") }
	if r.libraries != nil {
		if !slices.ContainsFunc(r.libraries, within) {
			return "not one of this package's libraries"
		}
		return ""
	}
	if part, isActor := strings.CutPrefix(importPath, protoActor); isActor && !slices.Contains(actorPackages, part) {
		return "this part of Proto.Actor blocks, panics or uses the wall clock"
	}
	return ""
}

// clockRule: a pure package reads no clock, uses no random hash seed and prints nothing, though the packages for that
// are permitted.
func clockRule(s source) []string {
	if !s.production() || !packages[packageOf(path.Dir(s.path))].pure {
		return nil
	}
	return s.selectors(func(from, name string) string {
		switch {
		case from == "time" && slices.Contains(clockCalls, name):
			return "reads or waits for the wall clock; time is passed in"
		case from == "fmt" && (strings.HasPrefix(name, "Print") || strings.HasPrefix(name, "Scan")):
			return "does I/O; log through the port"
		case from == "hash/maphash":
			return "differs from run to run"
		}
		return ""
	})
}

// integerRooms lists the packages whose decisions must be the same on another processor and for the next leader.
var integerRooms = []string{"topology", "policy", "actors"}

// limitOfIntegers matches the constants of package math for integers.
var limitOfIntegers = regexp.MustCompile("^(MaxInt|MinInt|MaxUint)[0-9]*$")

// integersRule forbids floating point. Some processors fuse a multiplication with an addition and get another result.
// Two leaders would then decide differently, and a seed would give another run on another host.
func integersRule(s source) []string {
	if !s.production() || !slices.Contains(integerRooms, s.layer()) {
		return nil
	}
	var findings []string
	found := func(pos token.Pos, what string) {
		findings = append(findings, fmt.Sprintf("%s: %s; what is decided is in integers", s.at(pos), what))
	}
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.BasicLit:
			if node.Kind == token.FLOAT || node.Kind == token.IMAG {
				found(node.Pos(), node.Value)
			}
		case *ast.Ident:
			if slices.Contains([]string{"float32", "float64", "complex64", "complex128"}, node.Name) {
				found(node.Pos(), node.Name)
			}
		}
		return true
	})
	return append(findings, s.selectors(func(from, name string) string {
		switch {
		case from == "math" && !limitOfIntegers.MatchString(name),
			from == "strconv" && strings.HasSuffix(name, "Float"),
			// methods of a Duration
			from == "" && slices.Contains([]string{"Seconds", "Minutes", "Hours"}, name):
			return "is a floating-point number; what is decided is in integers"
		}
		return ""
	})...)
}

// selectors visits every X.Name of the file. The judge gets X's import path, or "" if X is no package, and returns the
// finding.
func (s source) selectors(judge func(from, name string) string) []string {
	var findings []string
	ast.Inspect(s.syntax, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if reason := judge(s.imported(selector), selector.Sel.Name); reason != "" {
				findings = append(findings, fmt.Sprintf("%s: %s %s", s.at(selector.Pos()), selector.Sel.Name, reason))
			}
		}
		return true
	})
	return findings
}
