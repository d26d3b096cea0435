package settings

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
)

// TestShowIsRead checks that the printed settings read as the same values, for any values, and that each has its
// source.
func TestShowIsRead(t *testing.T) {
	make := func() (*pflag.FlagSet, []Section) {
		f := flags()
		f.Bool("debug", false, "")
		f.Duration("keep", time.Hour, "")
		f.String("odd", "", "")
		inner, deep := "a", "b"
		return f, []Section{{Name: "policy", Keys: []Key{
			{Name: "order", Set: func(s string) error { inner = s; return nil }, Get: func() string { return inner }},
			{Name: "more", Keys: []Key{
				{Name: "deep", Set: func(s string) error { deep = s; return nil }, Get: func() string { return deep }},
			}},
			{Name: "last", Set: func(string) error { return nil }, Get: func() string { return "x" }},
		}}}
	}
	none := func(string) (string, bool) { return "", false }
	for _, odd := range []string{"", "plain", "a: b", "# x", "[::]:9000", `q"uo\te`, "null", "yes", " edge ", "- x", "%", "1:2"} {
		f, sections := make()
		path := file(t, "gpus: 3\npolicy: {order: z, more: {deep: y}}\n")
		given := []string{"--config", path, "--odd", odd, "--join", "[::1]:9000", "--join", "b:2", "--debug"}
		if err := f.Parse(given); err != nil {
			t.Fatal(err)
		}
		from, err := Apply(f, "D_", none, sections...)
		if err != nil {
			t.Fatal(err)
		}
		values := Values(f, sections, from)
		text := Show(values)
		again, more := make()
		if err := again.Parse([]string{"--config", file(t, text)}); err != nil {
			t.Fatal(err)
		}
		from, err = Apply(again, "D_", none, more...)
		if err != nil {
			t.Fatalf("%q cannot be read: %v\n%s", odd, err, text)
		}
		if changed := Changed(values, Values(again, more, from)); len(changed) > 0 {
			t.Errorf("%q: read again, %v differ\n%s", odd, changed, text)
		}
		if got := again.Lookup("odd").Value.String(); got != odd {
			t.Errorf("%q is read as %q", odd, got)
		}
		for _, want := range []string{
			"gpus: 3", "# " + path + ":1", "# --odd", "data-dir: /var/lib/x", "# default", "    deep: y",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("there is no %s in\n%s", want, text)
			}
		}
	}
}
