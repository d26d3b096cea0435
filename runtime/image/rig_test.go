//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
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
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/test/able/pace"
)

// own is the user that runs the test.
var own = hostpath.Visitor{As: hostpath.Guest{Self: true}}

// This file provides a registry on loopback with injected errors, small images, and stores for the tests.

// TestMain runs this test binary as the child that unpacks, or as the agent that is killed, if its arguments say so.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == layer.SubCommand {
		syscall.Exit(layer.Main(os.Args[2:])) // os.Exit waits a second in a build with the race detector
	}
	if len(os.Args) > 3 && os.Args[1] == "agent" {
		agent(os.Args[2], os.Args[3])
	}
	os.Exit(m.Run())
}

// notes is a log that a test can read.
type notes struct {
	actors.NoLog
	mu    sync.Mutex
	lines []string
}

func (n *notes) Info(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines = append(n.lines, fmt.Sprintf(format, args...))
}

func (n *notes) count(text string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return strings.Count(strings.Join(n.lines, "\n"), text)
}

// open opens a store that is closed with the test.
func open(t testing.TB, o image.Options) (*image.Store, string) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "images")
	return openAt(t, dir, o), dir
}

func openAt(t testing.TB, dir string, o image.Options) *image.Store {
	t.Helper()
	if o.Log == nil {
		o.Log = &notes{}
	}
	if o.Inside == nil {
		o.Inside = func(string) bool { return true } // the tests' registry is on loopback
	}
	if o.Keychain == nil {
		o.Keychain = authn.NewMultiKeychain() // anonymous
	}
	store, err := image.Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() }) // a test may have closed it already
	return store
}

// prepare prepares an image for a holder that lives as long as the test.
func prepare(t testing.TB, store *image.Store, ref string) *image.Image {
	t.Helper()
	got, err := store.Prepare(t.Context(), ref, t.TempDir(), own)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// refused prepares an image that must be refused, with a reason that contains these words.
func refused(t *testing.T, store *image.Store, ref string, words ...string) {
	t.Helper()
	got, err := store.Prepare(t.Context(), ref, t.TempDir(), own)
	if err == nil {
		t.Errorf("%s was prepared: %+v", ref, got)
		return
	}
	for _, word := range append([]string{"image: "}, words...) {
		if !strings.Contains(err.Error(), word) {
			t.Errorf("the refusal of %s has not %q: %v", ref, word, err)
		}
	}
}

// checkClean checks that no unfinished work is left, and the number of layers and images.
func checkClean(t *testing.T, dir string, images, layers int) {
	t.Helper()
	for name, want := range map[string]int{"work": 0, "images": images, "layers": layers} {
		entries, err := os.ReadDir(filepath.Join(dir, name))
		if err != nil || len(entries) != want {
			t.Errorf("%d in %s, want %d (%v)", len(entries), name, want, err)
		}
	}
}

// layerOf returns a layer of some files: name, content, name, content … A name that ends with a slash is a directory.
func layerOf(t testing.TB, files ...string) v1.Layer {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	for i := 0; i < len(files); i += 2 {
		header := &tar.Header{Name: files[i], Mode: 0o755, Typeflag: tar.TypeReg, Size: int64(len(files[i+1]))}
		if strings.HasSuffix(files[i], "/") {
			header.Typeflag = tar.TypeDir
		}
		if err := archive.WriteHeader(header); err != nil {
			t.Fatal(err)
		}
		if _, err := archive.Write([]byte(files[i+1])); err != nil {
			t.Fatal(err)
		}
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	made, err := tarball.LayerFromOpener(
		func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.Bytes())), nil },
	)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// imageOf returns an image for this platform.
func imageOf(t testing.TB, config v1.Config, layers ...v1.Layer) v1.Image {
	t.Helper()
	base, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, Config: config, RootFS: v1.RootFS{Type: "layers"},
	})
	if err != nil {
		t.Fatal(err)
	}
	made, err := mutate.AppendLayers(base, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func digestOf(t testing.TB, of interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	digest, err := of.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return digest.String()
}

// hub is a registry on loopback.
type hub struct {
	t      testing.TB
	server *httptest.Server

	mu      sync.Mutex
	asked   map[string]int                                    // by method and path
	disturb func(w http.ResponseWriter, r *http.Request) bool // answers instead of the registry
}

func newHub(t testing.TB) *hub {
	h := &hub{t: t, asked: map[string]int{}}
	inner := registry.New(registry.Logger(quiet()))
	h.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.mu.Lock()
		h.asked[r.Method+" "+r.URL.Path]++
		disturb := h.disturb
		h.mu.Unlock()
		if disturb == nil || !disturb(w, r) {
			inner.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(h.server.Close)
	return h
}

// ref returns the full name of an image in the registry.
func (h *hub) ref(rest string) string {
	return strings.TrimPrefix(h.server.URL, "http://") + "/" + rest
}

func (h *hub) push(rest string, made v1.Image) string {
	h.t.Helper()
	tag, err := name.ParseReference(h.ref(rest))
	if err != nil {
		h.t.Fatal(err)
	}
	if err := remote.Write(tag, made); err != nil {
		h.t.Fatal(err)
	}
	return tag.String()
}

// disturbed sets a handler for requests of a method whose path contains a text.
func (h *hub) disturbed(method, path string, by http.HandlerFunc) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disturb = func(w http.ResponseWriter, r *http.Request) bool {
		if r.Method != method || !strings.Contains(r.URL.Path, path) {
			return false
		}
		by(w, r)
		return true
	}
}

func (h *hub) calm() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.disturb = nil
}

// requests returns the number of requests of a method whose path contains a text, after the last call.
func (h *hub) requests(method, path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	n := 0
	for asked, times := range h.asked {
		if strings.HasPrefix(asked, method+" ") && strings.Contains(asked, path) {
			n += times
		}
	}
	h.asked = map[string]int{}
	return n
}

// contentOf returns a layer's bytes in the registry.
func contentOf(t testing.TB, of v1.Layer) []byte {
	t.Helper()
	stream, err := of.Compressed()
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	content, err := io.ReadAll(stream)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func read(t testing.TB, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(parts...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// within waits until done returns true, and fails the test after a timeout.
func within(t testing.TB, what string, done func() bool) {
	t.Helper()
	for deadline := pace.Until(30 * time.Second); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within 30 s: %s", what)
		}
	}
}
