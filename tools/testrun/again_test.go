package main

import (
	"slices"
	"strings"
	"testing"
)

// looked processes a stream, and for each test that is rerun another stream. It returns the output.
func looked(t *testing.T, stream []string, seconds map[string][]string) (text string, ran []string, ok bool) {
	t.Helper()
	var out strings.Builder
	r := newRun(&out)
	if err := r.read(strings.NewReader(strings.Join(stream, "\n"))); err != nil {
		t.Fatal(err)
	}
	err := r.again(r.suspects(), func(t test, second *run) error {
		ran = append(ran, t.name)
		return second.read(strings.NewReader(strings.Join(seconds[t.name], "\n")))
	})
	if err != nil {
		t.Fatal(err)
	}
	ok = r.sum()
	return out.String(), ran, ok
}

func verdictOf(action, name string) string {
	return `{"Action":"` + action + `","Package":"host/a/b/x","Test":"` + name + `"}`
}

// TestUnsteady checks that a test that passes alone is listed and does not fail the run, with its subtests.
func TestUnsteady(t *testing.T) {
	first := []string{
		verdictOf("fail", "TestA/one"), verdictOf("fail", "TestA"), verdictOf("pass", "TestAll"),
		`{"Action":"fail","Package":"host/a/b/x"}`,
	}
	alone := []string{verdictOf("pass", "TestA/one"), verdictOf("pass", "TestA"), `{"Action":"pass","Package":"host/a/b/x"}`}
	text, ran, ok := looked(t, first, map[string][]string{"TestA": alone})
	if !ok || !slices.Equal(ran, []string{"TestA"}) ||
		!strings.Contains(text, "passed alone):\n  x TestA\n2 passed, 0 failed") {
		t.Errorf("%v, %v, %s", ok, ran, text)
	}
}

// TestFailsAgain checks that a test that fails alone, is skipped there or prints nothing has failed.
func TestFailsAgain(t *testing.T) {
	first := []string{verdictOf("fail", "TestA"), `{"Action":"fail","Package":"host/a/b/x"}`}
	for _, second := range [][]string{
		{verdictOf("fail", "TestA"), `{"Action":"fail","Package":"host/a/b/x"}`},
		{verdictOf("skip", "TestA"), `{"Action":"pass","Package":"host/a/b/x"}`},
		{`{"Action":"build-fail","ImportPath":"host/a/b/x"}`},
		nil,
	} {
		if text, _, ok := looked(t, first, map[string][]string{"TestA": second}); ok ||
			!strings.Contains(text, "failed:\n  x TestA\n") {
			t.Errorf("after %q: %v, %s", second, ok, text)
		}
	}
}

// TestNoSecondLook checks that no test is rerun after a race, a panic, a package that died or did not build, or too
// many failures.
func TestNoSecondLook(t *testing.T) {
	says := func(name, words string) string {
		return `{"Action":"output","Package":"host/a/b/x","Test":"` + name + `","Output":"` + words + `\n"}`
	}
	for what, first := range map[string][]string{
		"a race":             {says("TestA", "WARNING: DATA RACE"), verdictOf("fail", "TestA")},
		"a panic":            {says("TestA", "panic: nil"), verdictOf("fail", "TestA")},
		"a test without end": {verdictOf("fail", "TestA"), says("TestB", "=== RUN"), `{"Action":"fail","Package":"host/a/b/x"}`},
		"a package's end":    {verdictOf("fail", "TestA"), `{"Action":"fail","Package":"host/a/b/y"}`},
		"a failed build":     {verdictOf("fail", "TestA"), `{"Action":"build-fail","ImportPath":"host/a/b/y"}`},
		"four failures": {verdictOf("fail", "TestA"), verdictOf("fail", "TestB"), verdictOf("fail", "TestC"),
			verdictOf("fail", "TestD")},
	} {
		if text, ran, ok := looked(t, first, nil); ok || len(ran) > 0 {
			t.Errorf("%s: %v ran again, %v: %s", what, ran, ok, text)
		}
	}
}

func TestAlone(t *testing.T) {
	got := alone(strings.Fields("go test -json -p 3 ./test/e2e ./..."), test{"host/a/b/x", "TestA"})
	if want := "go test -json -p 3 -count=1 -run ^TestA$ host/a/b/x"; strings.Join(got, " ") != want {
		t.Errorf("%q", got)
	}
}
