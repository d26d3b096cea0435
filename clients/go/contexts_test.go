package client

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestEnvironment checks that variables override the settings file, and that a mistake is refused with a
// hint. TestWhichCluster of the commands compares the cluster that each program selects.
func TestEnvironment(t *testing.T) {
	dir := t.TempDir()
	put := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	file, token := put("cli.yaml", "server: up:9000\nretry: 3s\nca: /ca.pem\n"), put("token", " mine\n")
	for _, c := range []struct {
		env   string
		want  Config
		wrong string // part of the error
	}{
		{"", Config{Server: DefaultServer, Retry: DefaultRetry}, ""},
		{"SYNAPSE_CONFIG=" + file, Config{Server: "up:9000", CA: "/ca.pem", Retry: 3 * time.Second}, ""},
		{"SYNAPSE_RETRY=1m SYNAPSE_CA=/other.pem SYNAPSE_CONFIG=" + file,
			Config{Server: "up:9000", CA: "/other.pem", Retry: time.Minute}, ""},
		{"SYNAPSE_CONFIG=" + put("empty.yaml", "# nothing\n"), Config{Server: DefaultServer, Retry: DefaultRetry}, ""},
		{"SYNAPSE_SERVER=x:1 SYNAPSE_TOKEN_FILE=" + token, Config{Server: "x:1", Token: "mine", Retry: DefaultRetry}, ""},
		{"SYNAPSE_CONFIG=" + put("typo.yaml", "sever: x\n"), Config{}, "field sever not found"},
		{"SYNAPSE_CONFIG=/nowhere.yaml", Config{}, "settings: /nowhere.yaml: "},
		{"SYNAPSE_SERVER=x:1 SYNAPSE_RETRY=soon", Config{}, `SYNAPSE_RETRY "soon": `},
		{"SYNAPSE_TOKEN=a SYNAPSE_TOKEN_FILE=" + token, Config{}, "SYNAPSE_TOKEN and SYNAPSE_TOKEN_FILE are both set"},
		{"SYNAPSE_TOKEN_FILE=" + put("bare", "\n"), Config{}, "bare is empty"},
		{"SYNAPSE_TOKEN_FILE=/nowhere", Config{}, "SYNAPSE_TOKEN_FILE: open /nowhere"},
		{"SYNAPSE_CONTEXT=gone", Config{}, `unknown context "gone": no contexts exist`},
		{"SYNAPSE_CONTEXTS=" + put("contexts", "- what\n"), Config{}, "is not a file of contexts"},
	} {
		env := map[string]string{}
		for word := range strings.FieldsSeq(c.env) {
			name, value, _ := strings.Cut(word, "=")
			env[name] = value
		}
		got, err := Environment(func(name string) string { return env[name] })
		if e := (*Error)(nil); c.wrong != "" {
			if !errors.As(err, &e) || !strings.Contains(e.Text, c.wrong) || e.Hint == "" {
				t.Errorf("%q: %v, want %q", c.env, err, c.wrong)
			}
			continue
		}
		if strings.HasPrefix(got.Server, "unix:") && c.want.Server == DefaultServer {
			got.Server = DefaultServer // a scheduler runs on this host
		}
		if err != nil || got.Server != c.want.Server || got.CA != c.want.CA || got.Token != c.want.Token ||
			got.Retry != c.want.Retry {
			t.Errorf("%q: %+v, %v, want %+v", c.env, got, err, c.want)
		}
	}
}
