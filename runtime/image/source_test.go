//go:build linux

package image_test

import (
	"archive/tar"
	"bytes"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/yi-json/synapse/runtime/hostpath"
	"github.com/yi-json/synapse/runtime/image"
)

// This file tests the sources and the names of images.

func quiet() *log.Logger { return log.New(io.Discard, "", 0) }

// TestNames checks that an invalid image is refused with the fix.
func TestNames(t *testing.T) {
	store, dir := open(t, image.Options{})
	file := filepath.Join(t.TempDir(), "file.tar")
	if err := os.WriteFile(file, []byte("no archive"), 0o600); err != nil {
		t.Fatal(err)
	}
	for ref, words := range map[string][]string{
		"":                           {"empty", "`host`"},
		"host":                       {"host's own root"},
		"/":                          {"`image: host`"},
		"/../.":                      {"`image: host`"},
		"/proc/self/root":            {"does not exist for"},
		"./rootfs":                   {"relative", "begins with /"},
		"save.tar":                   {"relative", "begins with /"},
		"~/rootfs":                   {"relative"},
		"oci:layout":                 {"oci:/"},
		"oci:/layout:":               {"no tag"},
		"docker://alpine":            {"omit that: alpine"},
		"Alpine":                     {"registry/name:tag"},
		"alpine@sha256:short":        {"registry/name@sha256:"},
		"a\nb":                       {"one line"},
		strings.Repeat("x", 5000):    {"at most"},
		"/no/such/rootfs":            {"does not exist for", "every node"},
		"oci:/no/such/layout":        {"does not exist for", "every node"},
		file:                         {"docker save"},
		"oci:" + filepath.Dir(file):  {"no OCI layout"},
		"/dev/null":                  {"not a directory or regular file"},
		"localhost:1/a@md5:01234567": {"registry/name@sha256:"},
	} {
		refused(t, store, ref, words...)
	}
	checkClean(t, dir, 0, 0)
	if _, err := store.Prepare(t.Context(), "/etc", "relative", own); err == nil {
		t.Error("a holder that is no directory was taken")
	}
}

// TestRootfs checks that a directory is used unchanged.
func TestRootfs(t *testing.T) {
	store, dir := open(t, image.Options{})
	root, holder := filepath.Join(t.TempDir(), "a:b,c"), t.TempDir()
	if err := os.Mkdir(root, 0o755); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(root, link); err != nil {
		t.Fatal(err)
	}
	got, err := store.Prepare(t.Context(), link, holder, own)
	stat, wrong := os.Stat(root)
	if wrong != nil {
		t.Fatal(wrong)
	}
	is := func(i *image.Image) bool {
		return i.Named != nil && i.Rootfs == "" && i.Named.Directory && i.Named.Inode == stat.Sys().(*syscall.Stat_t).Ino
	}
	if err != nil || !is(got) || got.Digest != "" {
		t.Fatalf("%+v %v", got, err)
	}
	if held, err := store.Held(holder); err != nil || !is(held) || held.Ref != link {
		t.Errorf("%+v %v", held, err)
	}
	checkClean(t, dir, 0, 0)
}

// sample returns an image of two layers with a known rootfs.
func sample(t testing.TB) v1.Image {
	return imageOf(t, v1.Config{
		Entrypoint: []string{"/bin/run"}, Cmd: []string{"now"}, Env: []string{"PATH=/bin", "broken", "A=1"},
		WorkingDir: "srv", User: "7",
	},
		layerOf(t, "bin/", "", "bin/run", "one", "etc/", "", "etc/old", "x"), layerOf(t, "bin/run", "two", "etc/.wh.old", ""))
}

func checkSample(t *testing.T, got *image.Image, ref string, digests ...string) {
	t.Helper()
	if got.Ref != ref || !slices.Contains(digests, got.Digest) {
		t.Errorf("%s became %s by the name of %s, want one of %v", ref, got.Digest, got.Ref, digests)
	}
	if read(t, got.Rootfs, "bin/run") != "two" {
		t.Error("the upper layer is not on top")
	}
	if _, err := os.Stat(filepath.Join(got.Rootfs, "etc/old")); err == nil {
		t.Error("a whiteout was not heeded")
	}
	c := got.Config
	if !slices.Equal(c.Command(), []string{"/bin/run", "now"}) || !slices.Equal(c.Env, []string{"PATH=/bin", "A=1"}) ||
		c.WorkingDir != "/srv" || c.User != "7" {
		t.Errorf("%+v", c)
	}
}

// TestRegistry checks that an image is fetched by tag, by digest, and by the digest of an index. Content in the store
// is not fetched again.
func TestRegistry(t *testing.T) {
	hub, made := newHub(t), sample(t)
	log := &notes{}
	store, dir := open(t, image.Options{Log: log})
	tag := hub.push("team/train:v1", made)
	digest := digestOf(t, made)
	checkSample(t, prepare(t, store, tag), tag, digest)
	checkClean(t, dir, 1, 2)
	if n := log.count("Image " + tag + " is " + digest + ": 2 layers, 2 of them new"); n != 1 || len(log.lines) != 1 {
		t.Errorf("the log tells of it %d times: %q", n, log.lines)
	}
	hub.requests("GET", "")
	checkSample(t, prepare(t, store, tag), tag, digest)
	if n := hub.requests("GET", "/manifests/") + hub.requests("GET", "/blobs/"); n != 0 {
		t.Errorf("%d fetches of what is there", n)
	}
	exact := hub.ref("team/train@" + digest)
	checkSample(t, prepare(t, store, exact), exact, digest)
	if n := hub.requests("GET", "") + hub.requests("HEAD", ""); n != 0 {
		t.Errorf("the registry was asked %d times for what never changes", n)
	}
	hub.server.Close()
	checkSample(t, prepare(t, store, exact), exact, digest)
	refused(t, store, tag, "cannot be reached", "digest")
}

// TestTagMoves checks that a tag is looked up each time, and that a holder keeps its image.
func TestTagMoves(t *testing.T) {
	hub := newHub(t)
	store, _ := open(t, image.Options{})
	shared := layerOf(t, "base", "same")
	first, second := imageOf(t, v1.Config{}, shared, layerOf(t, "v", "1")), imageOf(t, v1.Config{}, shared,
		layerOf(t, "v", "2"))
	tag, holder := hub.push("a:latest", first), t.TempDir()
	before, err := store.Prepare(t.Context(), tag, holder, own)
	if err != nil {
		t.Fatal(err)
	}
	hub.push("a:latest", second)
	hub.requests("GET", "")
	if after := prepare(t, store, tag); after.Digest != digestOf(t, second) || read(t, after.Rootfs, "v") != "2" {
		t.Errorf("%+v", after)
	}
	if n := hub.requests("GET", "/blobs/"); n != 2 { // the config, and one of the two layers
		t.Errorf("%d blobs were fetched", n)
	}
	if again, err := store.Prepare(t.Context(), tag, holder, own); err != nil || again.Digest != before.Digest ||
		read(t, again.Rootfs, "v") != "1" {
		t.Errorf("%+v %v", again, err)
	}
	info, wrong := os.Stat(filepath.Join(before.Rootfs, "base"))
	other, err := os.Stat(filepath.Join(prepare(t, store, tag).Rootfs, "base"))
	if err != nil || wrong != nil || !os.SameFile(info, other) {
		t.Errorf("the common layer is there twice: %v %v", wrong, err)
	}
}

// TestHolderOfAnotherImage checks that a holder that requests another image gets that one.
func TestHolderOfAnotherImage(t *testing.T) {
	hub := newHub(t)
	store, _ := open(t, image.Options{})
	holder := t.TempDir()
	for name, version := range map[string]string{"a:latest": "1", "b:latest": "2"} {
		made := imageOf(t, v1.Config{}, layerOf(t, "v", version))
		got, err := store.Prepare(t.Context(), hub.push(name, made), holder, own)
		if err != nil || got.Digest != digestOf(t, made) || read(t, got.Rootfs, "v") != version {
			t.Errorf("%s: %+v, %v", name, got, err)
		}
	}
}

// TestIndex checks that the image for this platform is chosen, and that attestations do not count as images.
func TestIndex(t *testing.T) {
	hub, made := newHub(t), sample(t)
	store, _ := open(t, image.Options{})
	platform := func(os, arch string) v1.Descriptor {
		return v1.Descriptor{Platform: &v1.Platform{OS: os, Architecture: arch}}
	}
	other := imageOf(t, v1.Config{}, layerOf(t, "f", "other"))
	push := func(ref string, adds ...mutate.IndexAddendum) string {
		index := mutate.AppendManifests(empty.Index, adds...)
		tag, err := name.ParseReference(hub.ref(ref))
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.WriteIndex(tag, index); err != nil {
			t.Fatal(err)
		}
		return digestOf(t, index)
	}
	digest := push("multi:1", mutate.IndexAddendum{Add: other, Descriptor: platform("linux", "s390x")},
		mutate.IndexAddendum{Add: made, Descriptor: platform("linux", runtime.GOARCH)},
		mutate.IndexAddendum{Add: other, Descriptor: platform("unknown", "unknown")})
	checkSample(t, prepare(t, store, hub.ref("multi:1")), hub.ref("multi:1"), digestOf(t, made))
	hub.requests("GET", "")
	exact := hub.ref("multi@" + digest)
	checkSample(t, prepare(t, store, exact), exact, digestOf(t, made))
	if n := hub.requests("GET", "") + hub.requests("HEAD", ""); n != 0 {
		t.Errorf("the registry was asked %d times about an index that is known", n)
	}
	push("foreign:1", mutate.IndexAddendum{Add: other, Descriptor: platform("linux", "s390x")},
		mutate.IndexAddendum{Add: other, Descriptor: platform("unknown", "unknown")})
	refused(t, store, hub.ref("foreign:1"), "only for linux/s390x", "nodeSelector")
	alien, err := mutate.ConfigFile(empty.Image, &v1.ConfigFile{OS: "linux", Architecture: "s390x"})
	if err != nil {
		t.Fatal(err)
	}
	refused(t, store, hub.push("alien:1", alien), "linux/s390x", "this node")
}

// TestFiles checks that the same image from all kinds of files is one image in the store.
func TestFiles(t *testing.T) {
	store, dir := open(t, image.Options{})
	made, room := sample(t), t.TempDir()
	config, err := made.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	at, err := layout.Write(filepath.Join(room, "layout"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := at.AppendImage(made,
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "v1"})); err != nil {
		t.Fatal(err)
	}
	single := "oci:" + string(at)
	checkSample(t, prepare(t, store, single), single, digestOf(t, made))
	checkSample(t, prepare(t, store, single+":v1"), single+":v1", digestOf(t, made))
	refused(t, store, single+":v2", `no tag "v2"`, "v1")

	oci := filepath.Join(room, "oci.tar")
	packDir(t, string(at), oci)
	checkSample(t, prepare(t, store, oci), oci, digestOf(t, made))

	saved := filepath.Join(room, "saved.tar")
	tag, err := name.NewTag("train:v1")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(saved, tag, made); err != nil {
		t.Fatal(err)
	}
	checkSample(t, prepare(t, store, saved), saved, config.String())
	checkClean(t, dir, 2, 2)

	// A layout of several images needs a tag.
	if err := at.AppendImage(imageOf(t, v1.Config{}, layerOf(t, "f", "2")),
		layout.WithAnnotations(map[string]string{"org.opencontainers.image.ref.name": "v2"})); err != nil {
		t.Fatal(err)
	}
	refused(t, store, single, "2 images", "v1, v2")
	if got := prepare(t, store, single+":v2"); read(t, got.Rootfs, "f") != "2" {
		t.Errorf("%+v", got)
	}
	compressed := filepath.Join(room, "small.tar")
	if err := os.WriteFile(compressed, contentOf(t, layerOf(t, "f", "2")), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, store, compressed, "not compressed")
}

// TestFilesOfOthers checks that a file is read with the rights of its user, and that an image from a file is not given
// to other users by its digest.
func TestFilesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("requires root to act as another user")
	}
	store, dir := open(t, image.Options{})
	hub, made, room := newHub(t), sample(t), t.TempDir()
	at, err := layout.Write(filepath.Join(room, "layout"), empty.Index)
	if err != nil {
		t.Fatal(err)
	}
	if err := at.AppendImage(made); err != nil {
		t.Fatal(err)
	}
	for _, closed := range []string{filepath.Dir(room), string(at)} {
		if err := os.Chmod(closed, 0o711); err != nil {
			t.Fatal(err)
		}
	}
	archive := filepath.Join(room, "image.tar")
	packDir(t, string(at), archive)
	if err := os.Chmod(archive, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(string(at), "index.json"), 0o600); err != nil {
		t.Fatal(err)
	}
	checkSample(t, prepare(t, store, archive), archive, digestOf(t, made))
	stranger := hostpath.Visitor{As: hostpath.Guest{UID: 65534, GID: 65534}}
	for _, ref := range []string{archive, "oci:" + string(at)} {
		if got, err := store.Prepare(t.Context(), ref, t.TempDir(), stranger); err == nil ||
			!strings.Contains(err.Error(), "does not exist for the task's user") {
			t.Errorf("%s: %+v %v", ref, got, err)
		}
	}
	refused(t, store, hub.ref("any@"+digestOf(t, made)), "any@")
	checkClean(t, dir, 1, 2)
}

// packDir writes a directory as a tar file.
func packDir(t testing.TB, dir, to string) {
	t.Helper()
	var out bytes.Buffer
	archive := tar.NewWriter(&out)
	if err := archive.AddFS(os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := archive.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, out.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestTamperedFiles checks that a blob of a layout with a wrong digest is refused by name, and so is a missing one.
func TestTamperedFiles(t *testing.T) {
	made := sample(t)
	fresh := func() (string, []string) {
		at, err := layout.Write(filepath.Join(t.TempDir(), "layout"), empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		if err := at.AppendImage(made); err != nil {
			t.Fatal(err)
		}
		blobs, err := fs.Glob(os.DirFS(string(at)), "blobs/sha256/*")
		if err != nil || len(blobs) != 4 {
			t.Fatalf("%v %v", blobs, err)
		}
		return string(at), blobs
	}
	_, blobs := fresh()
	for _, blob := range blobs {
		for what, harm := range map[string]func(content []byte) []byte{
			"flipped": func(c []byte) []byte { c[len(c)/2] ^= 1; return c },
			"longer":  func(c []byte) []byte { return append(c, 0) },
			"shorter": func(c []byte) []byte { return c[:len(c)-1] },
		} {
			at, _ := fresh()
			store, dir := open(t, image.Options{})
			content := []byte(read(t, at, blob))
			if err := os.WriteFile(filepath.Join(at, blob), harm(content), 0o600); err != nil {
				t.Fatal(err)
			}
			t.Run(what+" "+filepath.Base(blob)[:8], func(t *testing.T) { refused(t, store, "oci:"+at, filepath.Base(blob)) })
			entries, err := os.ReadDir(filepath.Join(dir, "images"))
			if err != nil || len(entries) != 0 {
				t.Errorf("%s %s left an image", what, blob)
			}
		}
		at, _ := fresh()
		store, _ := open(t, image.Options{})
		if err := os.Remove(filepath.Join(at, blob)); err != nil {
			t.Fatal(err)
		}
		refused(t, store, "oci:"+at, filepath.Base(blob), "missing")
	}
}

// TestTamperedArchive checks a layer of a saved image, which is identified only by the digest in the config.
func TestTamperedArchive(t *testing.T) {
	layers := []v1.Layer{layerOf(t, "f", strings.Repeat("content", 100))}
	made := imageOf(t, v1.Config{}, layers...)
	lying, err := mutate.ConfigFile(made, &v1.ConfigFile{
		OS: "linux", Architecture: runtime.GOARCH, RootFS: v1.RootFS{
			Type: "layers", DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	store, dir := open(t, image.Options{})
	saved := filepath.Join(t.TempDir(), "saved.tar")
	tag, err := name.NewTag("a:b")
	if err != nil {
		t.Fatal(err)
	}
	if err := tarball.WriteToFile(saved, tag, lying); err != nil {
		t.Fatal(err)
	}
	refused(t, store, saved, "000000", "tampered")
	checkClean(t, dir, 0, 0)
}

// TestAnotherRepositoryIsAsked checks that an image from one repository is given to all jobs that name this repository.
// Another repository that only claims to have it, by its digest or by a tag, must deliver it.
func TestAnotherRepositoryIsAsked(t *testing.T) {
	hub, made := newHub(t), sample(t)
	store, _ := open(t, image.Options{})
	secret, digest := hub.push("team/secret:v1", made), digestOf(t, made)
	checkSample(t, prepare(t, store, secret), secret, digest)
	liar := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Docker-Content-Digest", digest)
		w.Header().Set("Content-Type", string(types.DockerManifestSchema2))
		w.Header().Set("Content-Length", "7")
		if r.Method == http.MethodGet && r.URL.Path != "/v2/" {
			w.Header().Del("Content-Length")
			w.WriteHeader(http.StatusNotFound)
		}
	}))
	defer liar.Close()
	there := strings.TrimPrefix(liar.URL, "http://") + "/mine/copy"
	for _, ref := range []string{there + "@" + digest, there + ":latest", hub.ref("team/other@" + digest)} {
		refused(t, store, ref, "does not have this image", "")
	}
	hub.push("team/other:v1", made)
	other := hub.ref("team/other@" + digest)
	checkSample(t, prepare(t, store, other), other, digest)
}
