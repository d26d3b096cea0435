package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able"
)

// This file tests nodes whose disk becomes full, and which tasks are ended for that.

// TestFullScratch checks tasks that fill the node's disk at once, repeatedly. They must end with a reason that names
// them, and the node must stay schedulable. It is the only node, so jobs of other users run there meanwhile.
func TestFullScratch(t *testing.T) {
	able.Need(t, able.Mounts)
	c := newClusterHere(t)
	smallDisk(t, c, "a", "64m")
	c.node("a", "r1")
	for round := range 5 {
		greedy := gang(1, 1, "while :; do head -c 100000000 /dev/zero > f; sleep 1; done")
		full := c.submit(greedy)
		c.until(full, "started", func(s *messages.JobStatus) bool { return s.Attempt.GetStartedUnixMs() > 0 })
		var others []string
		for i := range 3 {
			spec := gang(1, 1, "true")
			spec.Name = fmt.Sprintf("other-%d-%d", round, i)
			others = append(others, c.submit(spec))
		}
		c.await(full, "failed")
		c.cli("describe", "job", full).wants(t, 0, "was ended because the disk is full: the task kept", "")
		for _, id := range others {
			c.await(id, "succeeded")
		}
	}
	if m := c.machine("a"); m.Phase != "up" || m.Record.Cordoned != nil {
		t.Errorf("the node is %s: %v", m.Phase, m)
	}
}

// TestImageBomb uses an archive of 6 MB that unpacks to far more than the node's disk. The job's reason must name the
// cause, and its next attempt must wait. A task of another user, which uses much of that disk, must continue to its
// end.
func TestImageBomb(t *testing.T) {
	able.Need(t, able.Mounts)
	needDriver(t, "carapace")
	c := newClusterHere(t)
	c.contain("carapace")
	folder := smallDisk(t, c, "a", "256m")
	c.node("a", "r1")
	out := t.TempDir()
	beside := c.submit(writing(t, out, gang(1, 1, "head -c 20000000 /dev/zero > f; echo > "+out+"/ready; "+
		"until [ -e "+out+"/go ]; do sleep 0.1; done; echo more > g")))
	appears(t, filepath.Join(out, "ready"))
	path := bombArchive(t, 6<<30)
	bomb := gang(1, 1, "true")
	bomb.Name, bomb.Image = "bomb", path
	id := c.submit(bomb)
	said := c.until(id, "told why", func(s *messages.JobStatus) bool { return s.Record.PrepareFailures > 0 })
	why := fmt.Sprint(said.Record.GetPrepareFailedOn(), said.GetReason(), said.GetAttempt().GetEnd().GetDetail())
	fits := "does not fit on this node's disk: after "
	for _, words := range []string{"image: " + path, fits, "the node keeps 16.0 MiB free"} {
		if !strings.Contains(why, words) {
			t.Errorf("the outcome is %q, without %q", why, words)
		}
	}
	if wait := said.Record.NotBeforeUnixMs - time.Now().UnixMilli(); wait < 1000 {
		t.Errorf("the job is retried after %d ms", wait)
	}
	c.cli("cancel", id).wants(t, 0, "", "")
	if left, err := filepath.Glob(filepath.Join(folder, "*", "layers", "*")); err != nil || len(left) > 0 {
		t.Errorf("the image left: %v %v", left, err)
	}
	if err := os.WriteFile(filepath.Join(out, "go"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	c.await(beside, "succeeded")
	if m := c.machine("a"); m.Phase != "up" || m.Record.Cordoned != nil {
		t.Errorf("the node is %s: %v", m.Phase, m)
	}
}

// bombArchive creates an archive as docker save does, in which every thousandth byte is stored.
func bombArchive(t *testing.T, size int64) string {
	t.Helper()
	var packed bytes.Buffer
	small, _ := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	// It repeats one member of a MiB, because compressing all would take minutes.
	_, err := small.Write(bytes.Repeat([]byte("x"), 1<<20))
	if err = errors.Join(err, small.Close()); err != nil {
		t.Fatal(err)
	}
	var head, whole bytes.Buffer
	if err := tar.NewWriter(&head).WriteHeader(&tar.Header{Name: "big", Mode: 0o644, Size: size}); err != nil {
		t.Fatal(err)
	}
	front := gzip.NewWriter(&whole)
	_, err = front.Write(head.Bytes())
	if err = errors.Join(err, front.Close()); err != nil {
		t.Fatal(err)
	}
	for range size >> 20 {
		whole.Write(packed.Bytes())
	}
	config := &v1.ConfigFile{OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{Type: "layers"}}
	base, err := mutate.ConfigFile(empty.Image, config)
	if err != nil {
		t.Fatal(err)
	}
	made, err := mutate.AppendLayers(base, static.NewLayer(whole.Bytes(), types.DockerLayer))
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "bomb.tar")
	if err := tarball.WriteToFile(path, name.MustParseReference("bomb:1"), made); err != nil {
		t.Fatal(err)
	}
	return path
}
