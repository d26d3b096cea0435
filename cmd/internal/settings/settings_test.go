package settings

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

func flags() *pflag.FlagSet {
	f := pflag.NewFlagSet("daemon", pflag.ContinueOnError)
	Flag(f)
	f.String("listen", "127.0.0.1:9000", "")
	f.StringSlice("join", nil, "")
	f.Int("gpus", 0, "")
	f.String("data-dir", "/var/lib/x", "")
	return f
}

func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "daemon.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOrder checks the precedence: command line, environment, file, default.
func TestOrder(t *testing.T) {
	path := file(t, "# settings\nlisten: file:1\njoin: [a:1, b:2]\ngpus: 4\n")
	f := flags()
	if err := f.Parse([]string{"--config", path, "--gpus", "8"}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"D_LISTEN": "env:1", "D_GPUS": "2", "D_DATA_DIR": "/env"}
	from, err := Apply(f, "D_", func(n string) (string, bool) { v, is := environment[n]; return v, is })
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"listen": "D_LISTEN", "join": path + ":3", "gpus": "--gpus", "data-dir": "D_DATA_DIR", "debug": "",
	} {
		if from[name] != want {
			t.Errorf("%s is from %q, want %q", name, from[name], want)
		}
	}
	for name, want := range map[string]string{"listen": "env:1", "join": "[a:1,b:2]", "gpus": "8", "data-dir": "/env"} {
		if got := f.Lookup(name).Value.String(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}

func TestRefusals(t *testing.T) {
	none := func(string) (string, bool) { return "", false }
	for _, c := range []struct{ text, want string }{
		{"lisen: x\n", `:1:1: lisen: unknown setting; did you mean "listen"?`},
		{"xyzzy: x\n", ":1:1: xyzzy: unknown setting; use "},
		{"listen: x\nlisten: y\n", ":2:1: listen: duplicate key: first set in line 1"},
		{"gpus: many\n", ":1:7: gpus: "},
		{"- listen\n", ":1:1: must contain keys and values"},
		{"listen: {a: b}\n", ":1:9: listen: must be a plain value"},
		{"config: other\n", ":1:1: config: unknown setting"},
		{"lisen: x\ngpus: y\njion: z\n", `:3:1: jion: unknown setting; did you mean "join"?`}, // all errors are reported
	} {
		f := flags()
		if err := f.Parse([]string{"--config", file(t, c.text)}); err != nil {
			t.Fatal(err)
		}
		if _, err := Apply(f, "D_", none); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	bad := func(n string) (string, bool) { return "x", n == "D_GPUS" }
	if _, err := Apply(flags(), "D_", bad); err == nil || !strings.Contains(err.Error(), `D_GPUS="x" in the environment`) {
		t.Errorf("a bad number in the environment: %v", err)
	}
	if _, err := Apply(flags(), "D_", none); err != nil {
		t.Errorf("nothing given: %v", err)
	}
}
