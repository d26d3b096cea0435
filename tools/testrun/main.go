// Command testrun runs `go test -json …` in a directory and prints a summary: a line for each package, the complete
// output of failed tests, and at the end every skipped test with its reason. `go test` alone does not show skipped
// tests, so a suite that skips most tests would look successful. testrun fails if a test failed twice, if none ran, and
// if the tests left something on the host. If it is stopped or killed, the tests and everything they started end with
// it.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "testrun DIRECTORY go test -json …")
		os.Exit(2)
	}
	if len(os.Args) > 4 && os.Args[1] == workerWord {
		os.Exit(work(os.Args[2], os.Args[3:]))
	}
	code, err := guard(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
	}
	os.Exit(code)
}

// tested runs a command and reports whether all is well.
func tested(l *leavings, dir string, command []string) (bool, error) {
	command = paced(dir, command)
	r := newRun(os.Stdout)
	if err := l.run(dir, command, r.read); err != nil {
		return false, err
	}
	if os.Getenv("STRICT") == "" {
		look := func(t test, second *run) error { return l.run(dir, alone(command, t), second.read) }
		if err := r.again(r.suspects(), look); err != nil {
			return false, err
		}
	}
	r.left = l.left()
	return r.sum(), nil
}

// event is one event of `go test -json`, or of the build before it.
type event struct {
	Action, Package, ImportPath, Test, Output, FailedBuild string
}

// test names a test, or with an empty Test a package.
type test struct{ pkg, name string }

// run holds the events so far.
type run struct {
	out      io.Writer
	said     map[test][]string // output until the verdict; output of passed tests is dropped
	skipped  []skip
	passed   int
	failed   []test
	unsteady []test   // failed in parallel with others and passed alone
	broken   bool     // a package did not complete, or had a race
	left     []string // on the host
}

type skip struct {
	test
	reason string
}

func newRun(out io.Writer) *run { return &run{out: out, said: map[test][]string{}} }

func (r *run) read(from io.Reader) error {
	lines := bufio.NewReader(from)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.take(line)
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// take processes one line. It passes on other output, which comes from the go command itself.
func (r *run) take(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		_, _ = r.out.Write(line)
		return
	}
	key := test{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.said[key] = append(r.said[key], e.Output)
	case "build-output":
		fmt.Fprint(r.out, e.Output)
	case "build-fail":
		r.failed = append(r.failed, test{pkg: e.ImportPath})
	case "pass", "fail", "skip":
		r.verdict(key, e.Action)
	}
}

func (r *run) verdict(key test, action string) {
	said := r.said[key]
	delete(r.said, key)
	switch {
	case key.name == "":
		r.packageEnds(key, action, said)
	case action == "pass":
		r.passed++
	case action == "skip":
		r.skipped = append(r.skipped, skip{key, reasonIn(said)})
	default:
		r.failed = append(r.failed, key)
		r.notes(said)
	}
}

// packageEnds prints a package's own lines. A test that was running when its process died has no verdict, and its
// output is the only trace of the cause.
func (r *run) packageEnds(key test, action string, said []string) {
	if action == "fail" {
		if !slices.ContainsFunc(r.failed, func(f test) bool { return f.pkg == key.pkg }) {
			r.failed = append(r.failed, key)
		}
		for _, left := range r.unfinished(key.pkg) {
			r.broken = true
			r.notes(r.said[left])
			delete(r.said, left)
		}
	}
	for _, line := range said {
		if action == "fail" || strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "?") {
			fmt.Fprint(r.out, line)
		}
	}
}

// notes prints the output of a failed test.
func (r *run) notes(said []string) {
	all := strings.Join(said, "")
	for _, word := range []string{"WARNING: DATA RACE", "panic: ", "fatal error: "} {
		r.broken = r.broken || strings.Contains(all, word)
	}
	fmt.Fprint(r.out, all)
}

// unfinished returns a package's tests without a verdict, in order.
func (r *run) unfinished(pkg string) []test {
	var left []test
	for key := range r.said {
		if key.pkg == pkg && key.name != "" {
			left = append(left, key)
		}
	}
	slices.SortFunc(left, func(a, b test) int { return strings.Compare(a.name, b.name) })
	return left
}

// reasonIn finds the output of a skipped test: the line after `file.go:12: `.
func reasonIn(said []string) string {
	for _, line := range said {
		line = strings.TrimSpace(line)
		if _, reason, ok := strings.Cut(line, ".go:"); ok {
			if _, reason, ok = strings.Cut(reason, ": "); ok {
				return reason
			}
		}
	}
	return "no reason given"
}

// sum prints the skipped tests and the numbers, and reports whether all is well.
func (r *run) sum() bool {
	short := len(r.skipped)
	r.skipped = slices.DeleteFunc(r.skipped, func(s skip) bool {
		return strings.HasPrefix(s.reason, "-short") || strings.HasPrefix(s.reason, "-crowd")
	})
	short -= len(r.skipped)
	var skipped []string
	for _, s := range r.skipped {
		skipped = append(skipped, fmt.Sprintf("%s %s: %s", shortOf(s.pkg), s.name, s.reason))
	}
	r.list("skipped", skipped)
	r.list("unsteady, which is a bug all the same (they failed beside others and passed alone)", namesOf(r.unsteady))
	r.list("failed", namesOf(r.failed))
	r.list("left on this machine", r.left)
	fmt.Fprintf(r.out, "%d passed, %d failed, %d skipped%s\n", r.passed, len(r.failed), len(r.skipped), leftOut(short))
	if r.passed == 0 && len(r.failed) == 0 {
		fmt.Fprintln(r.out, "testrun: no test ran")
		return false
	}
	return len(r.failed)+len(r.left) == 0
}

// list prints names below a heading, if there are any.
func (r *run) list(heading string, names []string) {
	if len(names) == 0 {
		return
	}
	fmt.Fprintf(r.out, "\n%s:\n", heading)
	for _, name := range names {
		fmt.Fprintf(r.out, "  %s\n", name)
	}
}

func namesOf(tests []test) (names []string) {
	for _, t := range tests {
		names = append(names, strings.TrimSuffix(shortOf(t.pkg)+" "+t.name, " "))
	}
	return names
}

// leftOut describes how many tests a short run left out, without their names.
func leftOut(n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(", %d left out by -short or for `make test-integration`", n)
}

// shortOf returns a package's path after its host, owner and repository.
func shortOf(pkg string) string {
	parts := strings.SplitN(pkg, "/", 4)
	return parts[len(parts)-1]
}
