package main

import (
	"strings"
	"testing"
)

// read processes a stream, and returns the output and whether all is well.
func read(t *testing.T, stream ...string) (string, bool) {
	t.Helper()
	var out strings.Builder
	r := newRun(&out)
	if err := r.read(strings.NewReader(strings.Join(stream, "\n"))); err != nil {
		t.Fatal(err)
	}
	ok := r.sum()
	return out.String(), ok
}

func TestSkipsAreNamed(t *testing.T) {
	text, ok := read(t,
		`{"Action":"output","Package":"host/a/b/x","Test":"TestA","Output":"    x_test.go:12: this machine cannot fly: no wings\n"}`,
		`{"Action":"skip","Package":"host/a/b/x","Test":"TestA"}`,
		`{"Action":"output","Package":"host/a/b/x","Test":"TestB","Output":"chatter\n"}`,
		`{"Action":"pass","Package":"host/a/b/x","Test":"TestB"}`,
		`{"Action":"output","Package":"host/a/b/x","Output":"PASS\n"}`,
		`{"Action":"output","Package":"host/a/b/x","Output":"ok  \thost/a/b/x\t0.1s\n"}`,
		`{"Action":"pass","Package":"host/a/b/x"}`)
	want := "ok  \thost/a/b/x\t0.1s\n\nskipped:\n  x TestA: this machine cannot fly: no wings\n" +
		"1 passed, 0 failed, 1 skipped\n"
	if !ok || text != want {
		t.Errorf("%v, %q", ok, text)
	}
}

func TestLeftOutAreCounted(t *testing.T) {
	text, ok := read(t,
		`{"Action":"output","Package":"x","Test":"TestA","Output":"    x_test.go:12: -short: too long\n"}`,
		`{"Action":"skip","Package":"x","Test":"TestA"}`, `{"Action":"pass","Package":"x","Test":"TestB"}`)
	want := "1 passed, 0 failed, 0 skipped, 1 left out by -short or for `make test-integration`\n"
	if !ok || text != want {
		t.Errorf("%v, %q", ok, text)
	}
}

func TestFailuresSpeak(t *testing.T) {
	text, ok := read(t,
		`# not an event`,
		`{"Action":"output","Package":"x","Test":"TestA","Output":"what went wrong\n"}`,
		`{"Action":"fail","Package":"x","Test":"TestA"}`,
		`{"Action":"output","Package":"x","Test":"TestDead","Output":"panic: far away\n"}`,
		`{"Action":"output","Package":"x","Output":"FAIL\tx\t0.1s\n"}`,
		`{"Action":"fail","Package":"x"}`,
		`{"Action":"build-output","ImportPath":"y","Output":"undefined: z\n"}`,
		`{"Action":"build-fail","ImportPath":"y"}`)
	for _, want := range []string{
		"# not an event\n", "what went wrong\n", "panic: far away\n", "FAIL\tx\t0.1s\n", "undefined: z\n",
		"0 passed, 2 failed, 0 skipped\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
	if ok {
		t.Error("a failure is reported as success")
	}
}

func TestLeftIsNamed(t *testing.T) {
	var out strings.Builder
	r := newRun(&out)
	r.passed, r.left = 1, []string{"mount /x"}
	if ok := r.sum(); ok || !strings.Contains(out.String(), "left on this machine:\n  mount /x\n") {
		t.Errorf("%v, %q", ok, out.String())
	}
}

func TestNothingRan(t *testing.T) {
	if text, ok := read(t); ok {
		t.Errorf("an empty run is reported as success: %q", text)
	}
}
