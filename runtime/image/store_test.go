//go:build linux

package image_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/test/able"
)

// This file tests the store with concurrent callers, malicious registries, and crashes.

// TestTamperedRegistry checks that wrong content from a registry is refused by name.
func TestTamperedRegistry(t *testing.T) {
	hub := newHub(t)
	bottom, top := layerOf(t, "f", "one"), layerOf(t, "g", strings.Repeat("two", 1000))
	made := imageOf(t, v1.Config{}, bottom, top)
	tag := hub.push("a:1", made)
	exact := hub.ref("a@" + digestOf(t, made))
	config, err := made.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	content := contentOf(t, top)
	flipped := append([]byte{}, content...)
	flipped[len(flipped)/2] ^= 1
	for what, body := range map[string][]byte{
		"flipped": flipped, "another": contentOf(t, bottom), "longer": append(append([]byte{}, content...), "more"...),
		"empty": nil, "shorter": content[:100],
	} {
		t.Run(what, func(t *testing.T) {
			store, dir := open(t, image.Options{})
			hub.disturbed("GET", "/blobs/"+digestOf(t, top),
				func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) })
			refused(t, store, tag, digestOf(t, top))
			layers, err := os.ReadDir(filepath.Join(dir, "layers"))
			if err != nil || len(layers) > 1 { // the other layer may be complete
				t.Errorf("%v %v", layers, err)
			}
			hub.calm()
			if got := prepare(t, store, tag); read(t, got.Rootfs, "f") != "one" {
				t.Error("it is not usable once the registry is")
			}
		})
	}
	store, dir := open(t, image.Options{})
	hub.disturbed("GET", "/blobs/"+config.String(), func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"os":"linux","config":{"User":"root"}}`)
	})
	refused(t, store, tag, config.String())
	hub.disturbed("GET", "/manifests/", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.oci.image.manifest.v1+json")
		_, _ = io.WriteString(w, `{"schemaVersion":2}`)
	})
	refused(t, store, exact, digestOf(t, made))
	refused(t, store, tag, "does not describe an image")
	hub.disturbed("GET", "/manifests/", func(w http.ResponseWriter, _ *http.Request) { http.NotFound(w, nil) })
	refused(t, store, tag, "does not have this image", "check the name")
	checkClean(t, dir, 0, 0)
}

// TestBrokenOff checks that a layer whose transfer breaks off is fetched again from its start.
func TestBrokenOff(t *testing.T) {
	hub := newHub(t)
	big, err := random.Layer(1<<20, "application/vnd.oci.image.layer.v1.tar+gzip")
	if err != nil {
		t.Fatal(err)
	}
	tag := hub.push("a:1", imageOf(t, v1.Config{}, big))
	content := contentOf(t, big)
	cut := func(times int) {
		var mu sync.Mutex
		hub.disturbed("GET", "/blobs/"+digestOf(t, big), func(w http.ResponseWriter, _ *http.Request) {
			mu.Lock()
			defer mu.Unlock()
			w.Header().Set("Content-Length", fmt.Sprint(len(content)))
			if times--; times >= 0 {
				_, _ = w.Write(content[:len(content)/2])
				panic(http.ErrAbortHandler)
			}
			_, _ = w.Write(content)
		})
	}
	store, dir := open(t, image.Options{})
	cut(3)
	refused(t, store, tag, "broke off", digestOf(t, big))
	checkClean(t, dir, 0, 0)
	cut(2)
	prepare(t, store, tag)
	checkClean(t, dir, 1, 1)
}

// TestLogin checks that the docker configuration of the agent's user is used, and that the error names a missing login.
func TestLogin(t *testing.T) {
	hub := newHub(t)
	tag := hub.push("private:1", sample(t))
	hub.mu.Lock()
	hub.disturb = func(w http.ResponseWriter, r *http.Request) bool {
		if user, password, _ := r.BasicAuth(); user == "alice" && password == "wonder" {
			return false
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="here"`)
		w.WriteHeader(http.StatusUnauthorized)
		return true
	}
	hub.mu.Unlock()
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("DOCKER_CONFIG", home)
	t.Setenv("XDG_RUNTIME_DIR", home)
	t.Setenv("REGISTRY_AUTH_FILE", "")
	store, dir := open(t, image.Options{Keychain: authn.DefaultKeychain})
	refused(t, store, tag, "docker login", "401")
	server := strings.TrimPrefix(hub.server.URL, "http://")
	config := `{"auths":{"` + server + `":{"username":"alice","password":"wonder"}}}`
	if err := os.WriteFile(filepath.Join(home, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	checkSample(t, prepare(t, store, tag), tag, digestOf(t, sample(t)))
	checkClean(t, dir, 1, 2)
}

// nowhere is a network in which every host answers. It records every request.
type nowhere struct{ asked []string }

func (n *nowhere) RoundTrip(r *http.Request) (*http.Response, error) {
	n.asked = append(n.asked, r.URL.Scheme)
	if r.URL.Scheme == "https" {
		return nil, errors.New("no TLS here")
	}
	return &http.Response{StatusCode: http.StatusOK, Body: http.NoBody, Request: r, Header: http.Header{}}, nil
}

// TestPlaintext checks that plaintext is used only for loopback, although the library would use it for private networks
// too.
func TestPlaintext(t *testing.T) {
	for _, registry := range []string{"10.1.2.3:5000", "192.168.0.1", "registry.localhost:5000", "registry.example"} {
		network := &nowhere{}
		store, _ := open(t, image.Options{Transport: network})
		refused(t, store, registry+"/a:1")
		for _, scheme := range network.asked {
			if scheme != "https" {
				t.Errorf("%s was spoken to %s", scheme, registry)
			}
		}
	}
}

// TestHostileLayer checks that a refusal of package layer becomes an error that names the image and the layer.
func TestHostileLayer(t *testing.T) {
	hub := newHub(t)
	bad := layerOf(t, "../../escape", "x")
	store, dir := open(t, image.Options{})
	refused(t, store, hub.push("bad:1", imageOf(t, v1.Config{}, bad)), digestOf(t, bad), "leads out of the image")
	checkClean(t, dir, 0, 0)
	small, dir := open(t, image.Options{ImageBytes: 10_000})
	refused(t, small, hub.push("big:1", imageOf(t, v1.Config{}, layerOf(t, "f", strings.Repeat("x", 20_000)))), "limit")
	two := imageOf(t, v1.Config{}, layerOf(t, "f", strings.Repeat("x", 6000)), layerOf(t, "g", strings.Repeat("y", 6000)))
	refused(t, small, hub.push("two:1", two), "limit")
	checkClean(t, dir, 0, 2) // each of the two alone is permitted
}

// TestOnce checks that concurrent callers of one image fetch everything once.
func TestOnce(t *testing.T) {
	hub := newHub(t)
	made, err := random.Image(200_000, 4)
	if err != nil {
		t.Fatal(err)
	}
	tag := hub.push("a:1", made)
	hub.push("b:1", made)
	store, dir := open(t, image.Options{})
	hub.requests("GET", "")
	var group sync.WaitGroup
	for i := range 24 {
		ref, holder := tag, t.TempDir()
		if i%3 == 0 {
			ref = hub.ref("b:1")
		}
		group.Go(func() {
			if got, err := store.Prepare(t.Context(), ref, holder, own); err != nil || got.Digest != digestOf(t, made) {
				t.Errorf("%+v %v", got, err)
			}
		})
	}
	group.Wait()
	if n := hub.requests("GET", "/blobs/sha256"); n > 6 { // four layers, and a config for each of the two names
		t.Errorf("%d blobs were fetched", n)
	}
	checkClean(t, dir, 1, 4)
	list, err := store.List()
	if err != nil || len(list) != 1 || list[0].Holders != 24 || list[0].Bytes < 800_000 {
		t.Errorf("%+v %v", list, err)
	}
}

// stalled makes the registry stop in the middle of a layer until goOn is called.
func stalled(t testing.TB, hub *hub, of v1.Layer) (begun chan struct{}, goOn func()) {
	begun, on := make(chan struct{}, 100), make(chan struct{})
	content := contentOf(t, of)
	hub.disturbed("GET", "/blobs/"+digestOf(t, of), func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(len(content)))
		_, _ = w.Write(content[:len(content)/2])
		w.(http.Flusher).Flush()
		begun <- struct{}{}
		select {
		case <-on:
			_, _ = w.Write(content[len(content)/2:])
		case <-r.Context().Done():
		}
	})
	return begun, sync.OnceFunc(func() { close(on) })
}

// TestOneLeaves checks that a caller that gives up returns at once, and that the others get their image.
func TestOneLeaves(t *testing.T) {
	hub := newHub(t)
	big, err := random.Layer(1<<20, "application/vnd.oci.image.layer.v1.tar+gzip")
	if err != nil {
		t.Fatal(err)
	}
	tag := hub.push("a:1", imageOf(t, v1.Config{}, big))
	begun, goOn := stalled(t, hub, big)
	defer goOn()
	store, dir := open(t, image.Options{})
	first, leave := context.WithCancel(t.Context())
	left, stayed := make(chan error, 1), make(chan error, 1)
	holders := []string{t.TempDir(), t.TempDir()}
	go func() {
		_, err := store.Prepare(first, tag, holders[0], own)
		left <- err
	}()
	<-begun
	go func() {
		_, err := store.Prepare(t.Context(), tag, holders[1], own)
		stayed <- err
	}()
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	goOn()
	if err := <-stayed; err != nil {
		t.Error(err)
	}
	checkClean(t, dir, 1, 1)
}

// TestTimeRunsOut checks that when the only caller's context ends, no process and no unfinished work is left, and the
// error names the timeout.
func TestTimeRunsOut(t *testing.T) {
	hub := newHub(t)
	big, err := random.Layer(1<<20, "application/vnd.oci.image.layer.v1.tar+gzip")
	if err != nil {
		t.Fatal(err)
	}
	tag := hub.push("a:1", imageOf(t, v1.Config{}, big))
	_, goOn := stalled(t, hub, big)
	defer goOn()
	store, dir := open(t, image.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	_, err = store.Prepare(ctx, tag, t.TempDir(), own)
	if err == nil || !strings.Contains(err.Error(), "prepareTimeout") || !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("%v", err)
	}
	if left := unpackers(t, dir); len(left) != 0 {
		t.Errorf("processes are left: %v", left)
	}
	checkClean(t, dir, 0, 0)
	if err := store.Close(); err != nil {
		t.Error(err)
	}
	if _, err := store.Prepare(t.Context(), tag, t.TempDir(), own); err == nil {
		t.Error("a closed store prepares")
	}
}

// unpackers returns the processes with open directories in the store.
func unpackers(t testing.TB, dir string) []string {
	t.Helper()
	able.Need(t, able.Strangers)
	var found []string
	links, _ := filepath.Glob("/proc/[0-9]*/fd/3")
	for _, link := range links {
		if at, err := os.Readlink(link); err == nil && strings.HasPrefix(at, filepath.Join(dir, "work", "layer-")) &&
			strings.HasSuffix(at, "/fs") && filepath.Dir(filepath.Dir(link)) != fmt.Sprintf("/proc/%d", os.Getpid()) {
			found = append(found, link)
		}
	}
	return found
}

// agent is the main function of a process that prepares an image and then waits to be killed.
func agent(dir, ref string) {
	store, err := image.Open(dir, image.Options{Log: &notes{}, Loopback: true, Keychain: authn.NewMultiKeychain()})
	if err == nil {
		_, err = store.Prepare(context.Background(), ref, filepath.Dir(dir), own)
	}
	fmt.Println(err)
	_, _ = io.Copy(io.Discard, os.Stdin)
	os.Exit(3)
}

func startAgent(t *testing.T, dir, ref string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	command := exec.Command("/proc/self/exe", "agent", dir, ref)
	out := &bytes.Buffer{}
	command.Stdout, command.Stderr = out, out
	if _, err := command.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = command.Process.Kill() })
	return command, out
}

// TestKilled checks an agent that dies in the middle of a layer. Its unpacking process dies with it. The next agent
// removes unfinished work and uses complete layers.
func TestKilled(t *testing.T) {
	able.Need(t, able.Strangers)
	hub := newHub(t)
	big, err := random.Layer(1<<20, "application/vnd.oci.image.layer.v1.tar+gzip")
	if err != nil {
		t.Fatal(err)
	}
	small := layerOf(t, "f", "whole")
	tag := hub.push("a:1", imageOf(t, v1.Config{}, small, big))
	begun, goOn := stalled(t, hub, big)
	defer goOn()
	dir := filepath.Join(t.TempDir(), "images")
	command, out := startAgent(t, dir, tag)
	<-begun
	within(t, "the small layer is whole, and the big one under way", func() bool {
		whole, _ := os.ReadDir(filepath.Join(dir, "layers"))
		return len(whole) == 1 && len(unpackers(t, dir)) > 0
	})
	if _, err := image.Open(dir, image.Options{Log: &notes{}}); err == nil ||
		!strings.Contains(err.Error(), "in use by another agent") {
		t.Errorf("a second agent opened the store: %v", err)
	}
	if err := command.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = command.Wait() // killed
	within(t, "the unpacking process is gone", func() bool { return len(unpackers(t, dir)) == 0 })
	half, err := os.ReadDir(filepath.Join(dir, "work"))
	if err != nil || len(half) == 0 {
		t.Fatalf("nothing half made is left, so this tests nothing: %v %q", err, out)
	}
	store := openAt(t, dir, image.Options{})
	checkClean(t, dir, 0, 1)
	hub.calm()
	hub.requests("GET", "")
	if got := prepare(t, store, tag); read(t, got.Rootfs, "f") != "whole" {
		t.Errorf("%+v", got)
	}
	if n := hub.requests("GET", "/blobs/"+digestOf(t, small)); n != 0 {
		t.Error("the whole layer was fetched again")
	}
	checkClean(t, dir, 1, 2)
}

// TestRestart checks that the next agent knows images, holders and times of use, and removes unreadable records.
func TestRestart(t *testing.T) {
	hub := newHub(t)
	tag := hub.push("a:1", sample(t))
	other := hub.push("b:1", imageOf(t, v1.Config{}, layerOf(t, "f", "1")))
	store, dir := open(t, image.Options{})
	holder, gone := t.TempDir(), t.TempDir()
	before, err := store.Prepare(t.Context(), tag, holder, own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := store.Prepare(t.Context(), other, gone, own); err != nil {
		t.Fatal(err)
	}
	torn := filepath.Join(filepath.Dir(mustHold(t, store, gone).Rootfs), "image.json")
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(torn, []byte(`{"digest":`), 0o600); err != nil {
		t.Fatal(err)
	}
	store = openAt(t, dir, image.Options{})
	hub.server.Close()
	held, err := store.Held(holder)
	if err != nil || held.Rootfs != before.Rootfs || held.Digest != before.Digest {
		t.Fatalf("%+v %v", held, err)
	}
	checkSample(t, held, tag, digestOf(t, sample(t)))
	if again, err := store.Prepare(t.Context(), tag, holder, own); err != nil || again.Digest != before.Digest {
		t.Errorf("the holder's own image needs the registry: %v", err)
	}
	if _, err := store.Held(gone); err == nil {
		t.Error("an image whose record is torn is held")
	}
	for range 2 {
		if err := store.Release(holder); err != nil {
			t.Error(err)
		}
	}
	if _, err := store.Held(holder); err == nil {
		t.Error("what was released is held")
	}
	checkClean(t, dir, 1, 3)
}

func mustHold(t *testing.T, store *image.Store, holder string) *image.Image {
	t.Helper()
	held, err := store.Held(holder)
	if err != nil {
		t.Fatal(err)
	}
	return held
}

// TestPrivate checks that no other user of the host can reach an image's files.
func TestPrivate(t *testing.T) {
	_, dir := open(t, image.Options{})
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v %v", info, err)
	}
}
