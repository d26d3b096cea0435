package daemon

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/test/able/pace"
)

// reading returns a Reading of a program with three settings, one of which contains a password.
func reading() Reading {
	gpus := new(int)
	return Reading{
		Flags: func(f *pflag.FlagSet) {
			f.IntVar(gpus, "gpus", 1, "")
			f.Bool("debug", false, "")
			f.String("store", "sqlite", "")
		},
		Check: func() error {
			if *gpus < 0 {
				return errors.New("--gpus must not be negative")
			}
			return nil
		},
		Show: func(name, text string) string { return strings.ReplaceAll(text, "secret", "xxxxx") },
	}
}

func settingsFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "program.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestConfigCommands checks that `check` reports all errors with their positions, and that `show` prints the
// effective settings and their sources without a password.
func TestConfigCommands(t *testing.T) {
	t.Setenv("X_DEBUG", "true")
	for _, c := range []struct{ verb, text, out, err string }{
		{"check", "gpus: 3\n", "settings are valid\n", ""},
		{"check", "gpsu: 3\nstoer: x\n", "", `:1:1: gpsu: unknown setting; did you mean "gpus"?`},
		{"check", "gpsu: 3\nstoer: x\n", "", `:2:1: stoer: unknown setting; did you mean "store"?`},
		{"check", "gpus: -3\n", "", "--gpus must not be negative"},
		{"show", "gpus: 3\nstore: postgres://a:secret@b/c\n", "debug: true", ""},
		{"show", "gpus: 3\nstore: postgres://a:secret@b/c\n", "# X_DEBUG\n", ""},
		{"show", "gpus: 3\nstore: postgres://a:secret@b/c\n", "store: postgres://a:xxxxx@b/c  # FILE:2\n", ""},
	} {
		var out bytes.Buffer
		path := settingsFile(t, c.text)
		command := ConfigCommand("X_", reading)
		command.SetArgs([]string{c.verb, "--config", path})
		command.SetOut(&out)
		err := command.Execute()
		if got := strings.ReplaceAll(out.String(), path, "FILE"); !strings.Contains(got, c.out) {
			t.Errorf("%s %q: %q, want %q", c.verb, c.text, got, c.out)
		}
		if c.err == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s %q: %v, want %q", c.verb, c.text, err, c.err)
		}
		if err != nil && !errors.As(err, &Usage{}) {
			t.Errorf("%v is no usage error", err)
		}
	}
}

// TestReloading checks that SIGHUP applies the possible changes and reports the others, and that an invalid file
// changes nothing.
func TestReloading(t *testing.T) {
	path := settingsFile(t, "gpus: 1\n")
	var mu sync.Mutex
	var said []string
	debug := ""
	end := Reloading{
		Prefix: "X_", Fresh: reading,
		Log: func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			said = append(said, strings.ReplaceAll(fmt.Sprintf(format, args...), path, "FILE"))
		},
		Live: map[string]func(string){"debug": func(text string) { debug = text }},
	}.watch([]string{"--config", path})
	defer end()
	for _, c := range []struct{ text, want string }{
		{"gpus: 1\n", "SIGHUP: no setting has changed"},
		{"gpus: 1\ndebug: true\n", "SIGHUP: debug is now true (FILE:2)"},
		{"gpus: 2\ndebug: true\n", "SIGHUP: gpus is now 2 (FILE:1); restart to apply it"},
		{"gpus: -1\n", "SIGHUP: settings are invalid, and the previous ones stay in effect: --gpus must not be negative"},
		{"debug: true\n", "SIGHUP: gpus is now 1 (default); restart to apply it"},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		before := len(said)
		mu.Unlock()
		if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		last := ""
		for limit := pace.Until(20 * time.Second); last == "" && time.Now().Before(limit); time.Sleep(time.Millisecond) {
			mu.Lock()
			if len(said) > before {
				last = said[len(said)-1]
			}
			mu.Unlock()
		}
		if last != c.want {
			t.Errorf("%q: %q, want %q", c.text, last, c.want)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if debug != "true" {
		t.Errorf("debug is %q", debug)
	}
}
