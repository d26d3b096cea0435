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

// TestOrder: the command line before the environment, that before the file, that before the default.
func TestOrder(t *testing.T) {
	path := file(t, "# settings\nlisten: file:1\njoin: [a:1, b:2]\ngpus: 4\n")
	f := flags()
	if err := f.Parse([]string{"--config", path, "--gpus", "8"}); err != nil {
		t.Fatal(err)
	}
	environment := map[string]string{"D_LISTEN": "env:1", "D_GPUS": "2", "D_DATA_DIR": "/env"}
	if err := Apply(f, "D_", func(n string) (string, bool) { v, is := environment[n]; return v, is }); err != nil {
		t.Fatal(err)
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
		{"lisen: x\n", `:1: there is no setting "lisen"`},
		{"listen: x\nlisten: y\n", ":2: listen is there twice"},
		{"gpus: many\n", ":1: gpus: "},
		{"- listen\n", "must be keys and values"},
		{"listen: {a: b}\n", ":1: listen: must be a plain value"},
		{"config: other\n", `no setting "config"`},
	} {
		f := flags()
		if err := f.Parse([]string{"--config", file(t, c.text)}); err != nil {
			t.Fatal(err)
		}
		if err := Apply(f, "D_", none); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
	bad := func(n string) (string, bool) { return "x", n == "D_GPUS" }
	if err := Apply(flags(), "D_", bad); err == nil || !strings.Contains(err.Error(), `D_GPUS="x" in the environment`) {
		t.Errorf("a bad number in the environment: %v", err)
	}
	if err := Apply(flags(), "D_", none); err != nil {
		t.Errorf("nothing given: %v", err)
	}
}
