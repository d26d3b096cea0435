package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/test/spiffe"
	"github.com/yi-json/synapse/topology"
)

// TestHidden checks that the agent's own folders, the folder of its key and those of --hide are hidden, as absolute
// paths. Folders that cannot be hidden are refused before the start.
func TestHidden(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	if err := os.MkdirAll("keys", 0o700); err != nil {
		t.Fatal(err)
	}
	o := options{hide: []string{"keys"}, tls: "tls"}
	if err := o.checkHidden(); err != nil {
		t.Fatal(err)
	}
	got, err := o.hidden("/data")
	want := []string{"/data", filepath.Join(dir, "keys"), filepath.Join(dir, "tls")}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("hidden are %v (%v), want %v", got, err, want)
	}
	by := spiffe.New(t, "example.org", time.Now())
	keys := filepath.Join(dir, "keys")
	by.Write(keys, by.Sign("spiffe://example.org/node/n1", nil))
	by.Put(dir, "tls.yaml", []byte("cluster: c\ncert: keys/svid.pem\nkey: keys/svid_key.pem\nbundle: keys/bundle.pem\n"+
		"ids:\n- {id: \"spiffe://example.org/head\", role: scheduler, name: s}\n"+
		"- {id: \"spiffe://example.org/node/{name}\", role: node}\n"))
	if got, err := (&options{tls: "tls.yaml"}).hidden("/data"); err != nil || !slices.Equal(got, []string{"/data", keys}) {
		t.Errorf("of an outside issuer hidden are %v (%v)", got, err)
	}
	for path, words := range map[string]string{"nosuch": "folder does not exist", "/": "this would also hide"} {
		o := options{hide: []string{path}}
		if err := o.checkHidden(); err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("--hide %s: %v", path, err)
		}
	}
}

// TestFindKeys checks that a node that joins with a token keeps its key in its data folder, where a restarted agent
// finds it. --tls overrides this.
func TestFindKeys(t *testing.T) {
	dir := t.TempDir()
	found := func(o options) string {
		o.dataDir = dir
		o.findKeys()
		return o.tls
	}
	inside := filepath.Join(dir, "tls")
	if got := found(options{}); got != "" {
		t.Errorf("without a key and a token it speaks TLS by %s", got)
	}
	if got := found(options{token: "-"}); got != inside {
		t.Errorf("with a token the key would be in %q", got)
	}
	if err := os.Mkdir(inside, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := found(options{}); got != inside {
		t.Errorf("started again, the key is looked for in %q", got)
	}
	if got := found(options{tls: "keys"}); got != "keys" {
		t.Errorf("--tls keys is %q", got)
	}
}

// TestPortRanges checks that a range includes both ends and may be a single port. Port 0 and a reversed range are
// refused.
func TestPortRanges(t *testing.T) {
	for text, want := range map[string][2]int{
		"": {0, 0}, "20000-20999": {20000, 1000}, "7-7": {7, 1}, "1-65535": {1, 65535}, "65535-65535": {65535, 1},
		"0-5": {-1}, "5-4": {-1}, "1-65536": {-1}, "5": {-1}, "-5": {-1}, "5-": {-1}, "a-b": {-1},
	} {
		o := options{
			join: []string{"head:9000"}, dataDir: t.TempDir(), driver: driverAuto, uidRange: topology.NoUIDs,
			rootRange: topology.NoUIDs, logFormat: "text", ports: text,
		}
		err := o.check()
		if refused := want[0] < 0; refused != (err != nil) || refused && !strings.Contains(err.Error(), "--ports") {
			t.Errorf("--ports %q: %v", text, err)
		} else if first, count := o.portRange(); !refused && (first != want[0] || count != want[1]) {
			t.Errorf("--ports %q are %d from %d on, want %d from %d on", text, count, first, want[1], want[0])
		}
	}
}
