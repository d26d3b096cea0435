//go:build linux

package container

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	hub "github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/test/able"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests the path of an image from a registry to a running task.

// TestMain runs this test binary as the process that unpacks layers, if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == layer.SubCommand {
		syscall.Exit(layer.Main(os.Args[2:])) // os.Exit waits a second in a build with the race detector
	}
	code := m.Run()
	if builtIn != "" {
		os.RemoveAll(builtIn)
	}
	os.Exit(code)
}

// builtIn is the folder of the carapace binary; empty: it was not built.
var builtIn string

// built returns the path of cmd/carapace, built once for all tests.
var built = sync.OnceValues(func() (string, error) {
	var err error
	if builtIn, err = os.MkdirTemp("", "carapace-"); err != nil {
		return "", err
	}
	binary := filepath.Join(builtIn, "carapace")
	text, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", binary,
		"github.com/yi-json/synapse/cmd/carapace").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("build cmd/carapace: %w\n%s", err, text)
	}
	return binary, os.Chmod(builtIn, 0o755) // tasks run as other users
})

func program(t *testing.T) string {
	t.Helper()
	binary, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return binary
}

func storeOf(t *testing.T, dir string) *image.Store {
	t.Helper()
	store, err := image.Open(dir, image.Options{
		Log: actors.NoLog{}, Keychain: authn.NewMultiKeychain(), Inside: func(string) bool { return true },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// pushed pushes an image of one layer to a registry on loopback. The layer contains a shell with its files, if there is
// one, and a folder that all users can write to.
func pushed(t *testing.T, shell string, config v1.Config) string {
	t.Helper()
	program, err := os.ReadFile(shell)
	if shell != "" && err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	archive := tar.NewWriter(&packed)
	for _, entry := range []struct {
		tar.Header
		body []byte
	}{
		{tar.Header{Name: "bin/busybox", Mode: 0o755, Typeflag: tar.TypeReg}, program},
		{tar.Header{Name: "bin/sh", Typeflag: tar.TypeSymlink, Linkname: "busybox"}, nil},
		{tar.Header{Name: "open/", Mode: 0o777, Typeflag: tar.TypeDir}, nil},
		{tar.Header{Name: "open/data", Mode: 0o666, Typeflag: tar.TypeReg}, []byte("of the image")},
	} {
		entry.Size = int64(len(entry.body))
		if err := archive.WriteHeader(&entry.Header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write(entry.body); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	files, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(packed.Bytes())), nil },
	)
	if err != nil {
		t.Fatal(err)
	}
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := mutate.AppendLayers(base, files)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(server.Close)
	tag, err := name.ParseReference(strings.TrimPrefix(server.URL, "http://") + "/team/train:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := hub.Write(tag, made); err != nil {
		t.Fatal(err)
	}
	return tag.String()
}

// TestStored checks that the driver distinguishes an image of a store from a host directory. The image belongs to the
// agent, is hidden, and is never written to.
func TestStored(t *testing.T) {
	data := room(t)
	images := Stored{Store: storeOf(t, filepath.Join(data, "images"))}
	d := driverOf(t, func(o *Options) { o.Images, o.Hide = images, []string{data} })
	ref := pushed(t, "", v1.Config{
		Entrypoint: []string{"/bin/sh"}, Env: []string{"FROM=image", "A=image"}, WorkingDir: "/open",
	})
	task := taskOf(t, func(s *messages.JobSpec) { s.Image, s.Command = ref, nil })
	spec := specOf(t, d, task, nil, []string{"A=job"})
	if !carapace.Within(spec.Rootfs, data) || !carapace.Within(spec.Layer, task.Dir) || spec.ReadOnly ||
		spec.Workdir != "/open" || spec.Command[0] != "/bin/sh" {
		t.Errorf("%+v", spec)
	}
	if env := strings.Join(spec.Env, " "); !strings.Contains(env, "FROM=image") || !strings.Contains(env, "A=job") ||
		strings.Contains(env, "A=image") {
		t.Errorf("%s", env)
	}
	d.lacks = map[string]string{"layer": "no overlay"}
	if spec := specOf(t, d, task, nil, nil); spec.Layer != "" || !spec.ReadOnly {
		t.Errorf("without a layer, what all share can be written to: %+v", spec)
	}
	if err := d.Cleanup(task); err != nil {
		t.Error(err)
	}
	if _, err := images.Store.Held(task.Dir); err == nil {
		t.Error("the image is held after Cleanup")
	}
	for _, kept := range []string{"host", room(t)} {
		visitor := hostpath.Visitor{As: hostpath.Guest{Self: true}}
		if got, err := images.Prepare(t.Context(), kept, task.Dir, visitor); err != nil ||
			got.Owned {
			t.Errorf("%s: %+v %v", kept, got, err)
		}
	}
	inside, err := images.Prepare(t.Context(), spec.Rootfs, task.Dir, hostpath.Visitor{As: hostpath.Guest{Self: true}})
	if err == nil && inside.Owned {
		t.Error("a directory of the store, named by its path, passes as the store's own")
	}
}

// TestRegistryTask runs two tasks of one image from a registry. The second does not see the files that the first wrote.
func TestRegistryTask(t *testing.T) {
	able.Need(t, able.Containers)
	shell, err := exec.LookPath("busybox")
	if err != nil {
		t.Skip("busybox is missing: its static build is the image's shell")
	}
	binary := program(t)
	data := room(t)
	d := driverOf(t, func(o *Options) {
		o.Binary, o.Hide, o.Images = binary, []string{data}, Stored{Store: storeOf(t, filepath.Join(data, "images"))}
	})
	ctx, cancel := context.WithTimeout(t.Context(), pace.Of(time.Minute))
	defer cancel()
	if err := d.Check(ctx); err != nil {
		t.Fatal(err)
	}
	if err := d.Try(ctx); err != nil {
		t.Fatal(err)
	}
	ref := pushed(t, shell, v1.Config{Env: []string{"FROM=image"}, WorkingDir: "/open"})
	for range 2 {
		task := taskOf(t, func(s *messages.JobSpec) {
			s.Image = ref
			s.Command = []string{
				"/bin/sh", "-c", "{ pwd; echo $FROM; busybox cat data; echo changed > data && echo x > new && busybox ls; " +
					"busybox cat data; } > /scratch/out",
			}
		})
		if err := d.Prepare(ctx, task); err != nil {
			t.Fatal(err)
		}
		spec, err := d.Command(task, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		link, err := supervisor.Start(filepath.Dir(task.Dir), spec, []string{binary, supervisor.SubCommand})
		if err != nil {
			t.Fatal(err)
		}
		event := link.Next()
		for event.Exit == nil && !event.Closed {
			event = link.Next()
		}
		link.Close()
		out, err := os.ReadFile(filepath.Join(task.Scratch, "out"))
		if event.Exit == nil || event.Exit.Code != 0 || err != nil ||
			string(out) != "/open\nimage\nof the imagedata\nnew\nchanged\n" {
			t.Errorf("%+v, %q, %v", event.Exit, out, err)
		}
		if err := d.Cleanup(task); err != nil {
			t.Error(err)
		}
	}
}
