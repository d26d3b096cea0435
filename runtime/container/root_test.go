//go:build linux

package container

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/topology"
)

// TestRootNeedsItsCarapace checks that no task is root if the program does not report support for a separate id range.
// Such a program would run the task as root of the host.
func TestRootNeedsItsCarapace(t *testing.T) {
	able.Need(t, able.Root)
	roots, err := account.OpenRoots(t.TempDir(), topology.UIDRange{First: 400_000_000, Last: 400_065_535}, 65536)
	if err != nil {
		t.Fatal(err)
	}
	root := func(s *messages.JobSpec) { s.User = "root" }
	refused := func(d *Driver, why string) {
		t.Helper()
		err := d.Prepare(context.Background(), taskOf(t, root))
		if err == nil || !strings.HasPrefix(err.Error(), "user: ") || !strings.Contains(err.Error(), why) {
			t.Errorf("%v", err)
		}
	}
	for says, why := range map[string]string{
		"[]": "earlier version",
		`[{"name":"root of a container's own","ok":false,"reason":"no such file system"}]`: "no such file system",
	} {
		binary := filepath.Join(t.TempDir(), "carapace")
		if err := os.WriteFile(binary, []byte("#!/bin/sh\ncat <<'END'\n"+says+"\nEND\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		d := driverOf(t, func(o *Options) { o.Binary, o.Users = binary, account.Rules{Roots: roots} })
		refused(d, "not tested")
		if err := d.Check(context.Background()); err != nil {
			t.Fatal(err)
		}
		refused(d, why)
	}
}

// TestRootAsPrepared checks that a task is not started with other root ids than those of its preparation.
func TestRootAsPrepared(t *testing.T) {
	able.Need(t, able.Root)
	roots, err := account.OpenRoots(t.TempDir(), topology.UIDRange{First: 400_000_000, Last: 400_065_535}, 65536)
	if err != nil {
		t.Fatal(err)
	}
	d := driverOf(t, func(o *Options) { o.Users = account.Rules{Roots: roots, AllowRoot: true} })
	d.lacks = map[string]string{}
	for _, allowed := range []bool{true, false} {
		d.o.Users.AllowRoot = allowed
		task := taskOf(t, func(s *messages.JobSpec) { s.User = "root" })
		if err := d.Prepare(context.Background(), task); err != nil {
			t.Fatal(err)
		}
		spec, err := d.Command(task, nil, nil)
		if err != nil || (spec.Container.Spec.IDs == nil) != allowed {
			t.Errorf("%+v (%v)", spec, err)
		}
		d.o.Users.AllowRoot = !allowed
		if spec, err := d.Command(task, nil, nil); err == nil {
			t.Errorf("%+v", spec.Container.Spec)
		}
	}
}
