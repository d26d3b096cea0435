package main

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/store/sqlite"
	"github.com/yi-json/synapse/topology"
)

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		change func(*options)
		refuse string // empty: valid
	}{
		{func(*options) {}, ""},
		{func(o *options) { o.store = "memory"; o.dataDir = "" }, ""},
		{func(o *options) { o.dataDir = "" }, "--data-dir is empty"},
		{func(o *options) { o.store = "floppy" }, `--store "floppy"`},
		{func(o *options) { o.store = "postgre://me:secret@db/x" }, `--store "postgre"`},
		{func(o *options) { o.store = "postgres://me:secret@db/x"; o.dataDir = "" }, ""},
		{func(o *options) { o.store, o.listen, o.tls = "postgresql://db/x", "0.0.0.0:9000", "t" }, "set --advertise"},
		{func(o *options) { o.store, o.listen, o.tls = "postgres://db/x", ":9000", "t" }, "set --advertise"},
		{func(o *options) {
			o.store, o.listen, o.advertise, o.tls = "postgres://db/x", "[::]:9000", "head1:9000", "t"
		}, ""},
		{func(o *options) { o.listen, o.tls = "0.0.0.0:9000", "t" }, ""},
		{func(o *options) { o.listen = "0.0.0.0:9000" }, "or --insecure twice"},
		{func(o *options) { o.listen = ":9000" }, "or --insecure twice"},
		{func(o *options) { o.listen = "10.0.0.7:9000" }, "or --insecure twice"},
		{func(o *options) { o.listen = "head1:9000" }, "or --insecure twice"},
		{func(o *options) { o.listen, o.insecure = "10.0.0.7:9000", 1 }, "or --insecure twice"},
		{func(o *options) { o.listen, o.insecure = "10.0.0.7:9000", 2 }, ""},
		{func(o *options) { o.listen = "localhost:9000" }, ""},
		{func(o *options) { o.listen = "[::1]:9000" }, ""},
		{func(o *options) { o.listen = "127.9.9.9:9000" }, ""},
		{func(o *options) { o.listen = "here" }, "--listen \"here\""},
		{func(o *options) { o.advertise = "0.0.0.0:9000" }, "--advertise \"0.0.0.0:9000\""},
		{func(o *options) { o.advertise = "head1" }, "--advertise \"head1\""},
		{func(o *options) { o.advertise = "head1:0" }, "--advertise"},
		{func(o *options) { o.advertise = "head 1:9000" }, "--advertise"},
		{func(o *options) { o.keepFinished = -1 }, "--keep-finished"},
		{func(o *options) { o.past = -1 }, "--timeline"},
		{func(o *options) { o.levels = []string{"zone", "zone"} }, "--levels"},
		{func(o *options) { o.pageCert = "c" }, "must be set together"},
		{func(o *options) { o.pageCert, o.pageKey = "c", "k" }, "--web-cert requires --tls"},
		{func(o *options) { o.tls, o.pageCert, o.pageKey = "t", "c", "k" }, ""},
		{func(o *options) { o.otlp = "http://127.0.0.1:4318" }, ""},
		{func(o *options) { o.otlp = "https://otel.example.org/base/" }, ""},
		{func(o *options) { o.otlp = "http://otel:4318" }, "--otlp: must begin with https://"},
		{func(o *options) { o.otlp = "127.0.0.1:4318" }, "--otlp: must be a URL"},
		{func(o *options) { o.otlp = "https://me:secret@otel.example.org" }, "--otlp: must be a URL"},
		{func(o *options) { o.uidRange = "none" }, ""},
		{func(o *options) { o.uidRange = "1000-60000" }, `--uids: "1000-60000" is outside`},
	} {
		o := options{listen: "127.0.0.1:9000", dataDir: "/data", store: storeSQLite, uidRange: topology.DefaultUIDs}
		c.change(&o)
		err := o.check()
		if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), c.refuse) {
			t.Errorf("%+v: %v, want %q", o, err, c.refuse)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("the password is told: %v", err)
		}
	}
}

// TestClusterMovesIntoTheStore checks that a data folder of an older version keeps its cluster ID, which nodes
// require.
func TestClusterMovesIntoTheStore(t *testing.T) {
	s := &scheduler{options: options{dataDir: t.TempDir()}}
	path := filepath.Join(s.dataDir, clusterFile)
	if err := os.WriteFile(path, []byte("c-before\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		own, err := sqlite.Open(filepath.Join(s.dataDir, databaseFile))
		if err != nil {
			t.Fatal(err)
		}
		id, err := s.inherit(own)
		if err = errors.Join(err, own.Close()); err != nil || id != "c-before" {
			t.Fatalf("the cluster is %q (%v)", id, err)
		}
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("the file is still there (%v)", err)
		}
	}
}

// TestPlainNames checks that a page without TLS answers only to addresses and to the scheduler's own names. This
// prevents DNS rebinding.
func TestPlainNames(t *testing.T) {
	s := &scheduler{options: options{advertise: "head1:9000"}}
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]bool{
		"127.0.0.1:9000": true, "[::1]:9000": true, "10.0.0.7": true, "localhost:9000": true, "head1:9000": true,
		own + ":9000": true, "evil.example:9000": false, "head1.evil.example": false, "": false, ":9000": false,
	} {
		if got := s.plainName(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}
