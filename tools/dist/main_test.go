package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go/v1"
)

// linked links programs of this tree for this host, as in a release but without trimmed paths, which would compile
// everything again.
func linked(t *testing.T, names ...string) build {
	t.Helper()
	dir := t.TempDir()
	words := []string{"build", released, "-ldflags=-s -w -buildid=", "-buildvcs=false", "-o", dir + "/"}
	for _, name := range names {
		words = append(words, "./cmd/"+name)
	}
	run := exec.Command("go", words...)
	run.Dir = "../.."
	run.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := run.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	b := build{release: release{"v1.2.3-rc.1", time.Unix(1_700_000_000, 0).UTC()}, os: "linux", arch: runtime.GOARCH}
	for _, name := range names {
		body, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		b.programs = append(b.programs, product{name, body})
	}
	return b
}

// TestSizes checks the sizes of the programs that a host runs many times, or that every user downloads.
func TestSizes(t *testing.T) {
	watched := []string{"synapse-scheduler", "synapse-node", "carapace", "synapse-exec", "synapse-submit"}
	for _, p := range linked(t, watched...).programs {
		t.Logf("%s: %d bytes", p.name, len(p.body))
		if err := tooBig(p.name, len(p.body)); err != nil {
			t.Error(err)
		}
	}
	if tooBig("carapace", 3_700_001) == nil {
		t.Error("a carapace of more than 3.7 MB is accepted")
	}
}

// small returns a release whose programs are short texts, which is enough to test the packages.
func small(t *testing.T, dir string) []product {
	t.Helper()
	var machines []build
	for _, arch := range []string{"amd64", "arm64"} {
		b := build{release: release{"v1.2.3-rc.1", time.Unix(1_700_000_000, 0).UTC()}, os: "linux", arch: arch}
		for _, name := range programs {
			b.programs = append(b.programs, product{name, []byte(name + arch)})
		}
		machines = append(machines, b)
	}
	return packAll(t, tree{dir: dir}, machines)
}

func packAll(t *testing.T, from tree, machines []build) []product {
	t.Helper()
	s, err := readScripts(from.dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []product
	for _, b := range machines {
		files, err := from.installed(b.programs, []file{{path: "usr/share/man/man1/a.1.gz", mode: 0o644, body: []byte("a")}})
		if err != nil {
			t.Fatal(err)
		}
		rpm, err := redhat(s, b.release, b.arch, files)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, tarball(b.release, b.arch, files), debian(s, b.release, b.arch, files), rpm)
	}
	one, err := image(machines)
	if err != nil {
		t.Fatal(err)
	}
	return append(all, one)
}

// TestSameBytes checks that two builds of a commit, in different folders and at different times, are equal.
func TestSameBytes(t *testing.T) {
	first := small(t, "../..")
	other := filepath.Join(t.TempDir(), "elsewhere")
	if err := os.CopyFS(filepath.Join(other, "deploy"), os.DirFS("../../deploy")); err != nil {
		t.Fatal(err)
	}
	late := time.Now().Add(48 * time.Hour)
	err := filepath.WalkDir(other, func(path string, _ os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Chtimes(path, late, late)
	})
	if err != nil {
		t.Fatal(err)
	}
	again := small(t, other)
	for i := range first {
		if first[i].name != again[i].name || !bytes.Equal(first[i].body, again[i].body) {
			t.Errorf("%s differs in another folder, two days later", first[i].name)
		}
		if now := time.Now().Format("2006-01-02"); bytes.Contains(first[i].body, []byte(now)) {
			t.Errorf("%s contains the date", first[i].name)
		}
	}
}

// TestWrite checks that a release replaces only an earlier release in its folder.
func TestWrite(t *testing.T) {
	out := filepath.Join(t.TempDir(), "dist")
	for _, name := range []string{"first", "second"} {
		if err := write(out, []product{{name, []byte(name)}}); err != nil {
			t.Fatal(err)
		}
	}
	left, err := os.ReadDir(out)
	if err != nil || len(left) != 2 || left[1].Name() != "second" {
		t.Errorf("%v: %v", err, left)
	}
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "letter"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := write(home, nil); err == nil || !strings.Contains(err.Error(), "is no release") {
		t.Errorf("for a folder that is no release: %v", err)
	}
	if _, err := os.Stat(filepath.Join(home, "letter")); err != nil {
		t.Error(err)
	}
}

// TestNames checks that versions have the same order for Debian and RPM.
func TestNames(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3~rc.1",
		"v0.0.0-20261124022841-d1b03a4c9b5e":       "0.0.0~20261124022841.d1b03a4c9b5e",
		"v1.2.4-0.20261124022841-d1b03a4c9b5e":     "1.2.4~0.20261124022841.d1b03a4c9b5e",
		"v1.2.3-rc.1.0.20261124022841-d1b03a4c9b5": "1.2.3~rc.1.0.20261124022841.d1b03a4c9b5",
	} {
		if got := (release{version: version}).plain(); got != want {
			t.Errorf("%s is %s, want %s", version, got, want)
		}
	}
}

// unpacked returns the members of a tar by name.
func unpacked(t *testing.T, body []byte) map[string][]byte {
	t.Helper()
	all := map[string][]byte{}
	for r := tar.NewReader(bytes.NewReader(body)); ; {
		h, err := r.Next()
		if err == io.EOF {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if all[h.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
	}
}

// TestImage checks that every blob has the digest in its name, and that the layers are those of the configuration.
func TestImage(t *testing.T) {
	all := small(t, "../..")
	members := unpacked(t, all[len(all)-1].body)
	read := func(d v1.Descriptor, into any) []byte {
		t.Helper()
		body := members["blobs/sha256/"+d.Digest.Encoded()]
		if digest.FromBytes(body) != d.Digest || int64(len(body)) != d.Size {
			t.Fatalf("%s does not match its name", d.Digest)
		}
		if into != nil {
			if err := json.Unmarshal(body, into); err != nil {
				t.Fatal(err)
			}
		}
		return body
	}
	var top, index v1.Index
	if err := json.Unmarshal(members["index.json"], &top); err != nil {
		t.Fatal(err)
	}
	read(top.Manifests[0], &index)
	var arches []string
	for _, d := range index.Manifests {
		var m v1.Manifest
		var config v1.Image
		read(d, &m)
		read(m.Config, &config)
		r, err := gzip.NewReader(bytes.NewReader(read(m.Layers[0], nil)))
		if err != nil {
			t.Fatal(err)
		}
		layer, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if config.RootFS.DiffIDs[0] != digest.FromBytes(layer) || config.Architecture != d.Platform.Architecture {
			t.Errorf("the configuration of %s names another layer", d.Platform.Architecture)
		}
		if _, is := unpacked(t, layer)["usr/bin/carapace"]; !is {
			t.Error("the layer lacks carapace")
		}
		arches = append(arches, config.Architecture)
	}
	if !slices.Equal(arches, []string{"amd64", "arm64"}) {
		t.Errorf("unexpected platforms: %v", arches)
	}
}

// TestDebian checks that Debian's own program, if it is installed, reads the package and finds everything in it.
func TestDebian(t *testing.T) {
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not installed")
	}
	at := filepath.Join(t.TempDir(), "synapse.deb")
	if err := os.WriteFile(at, small(t, "../..")[1].body, 0o600); err != nil {
		t.Fatal(err)
	}
	for question, wants := range map[string][]string{
		"--info": {"Package: synapse", "Version: 1.2.3~rc.1", "Architecture: amd64", "conffiles", "postrm"},
		"--contents": {" 0/0 ", "./usr/bin/synapse-node", "./usr/bin/synctl -> synapse-cli", "./etc/synapse/node.yaml",
			"./usr/lib/systemd/system/synapse-node.service", "2023-11-14"},
	} {
		text, err := exec.Command("dpkg-deb", question, at).CombinedOutput()
		for _, want := range wants {
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %v: %q is not in\n%s", question, err, want, text)
			}
		}
	}
}

// TestRPM checks that RPM's own program, if it is installed, reads the package and finds the same files and scripts as
// in Debian's.
func TestRPM(t *testing.T) {
	if _, err := exec.LookPath("rpm"); err != nil {
		t.Skip("rpm is not installed")
	}
	at := filepath.Join(t.TempDir(), "synapse.rpm")
	if err := os.WriteFile(at, small(t, "../..")[2].body, 0o600); err != nil {
		t.Fatal(err)
	}
	for question, wants := range map[string][]string{
		"-qpl":       {"/usr/bin/carapace", "/usr/bin/synctl", "/etc/synapse/node.yaml"},
		"-qpc":       {"/etc/synapse/node.yaml", "/etc/synapse/scheduler.yaml"},
		"--checksig": {"OK"},
	} {
		text, err := exec.Command("rpm", question, at).CombinedOutput()
		for _, want := range wants {
			if err != nil || !strings.Contains(string(text), want) {
				t.Errorf("%s: %v: %q is not in\n%s", question, err, want, text)
			}
		}
	}
	for question, name := range map[string]string{"POSTIN": "postinst", "PREUN": "prerm", "POSTUN": "postrm"} {
		text, err := exec.Command("rpm", "-qp", "--qf", "%{"+question+"}", at).Output()
		script, failed := os.ReadFile(filepath.Join("../../deploy/scripts", name))
		_, body, _ := strings.Cut(string(script), "\n")
		if err != nil || failed != nil || !strings.HasSuffix(strings.TrimSpace(string(text)), strings.TrimSpace(body)) {
			t.Errorf("%s differs from deploy/scripts/%s: %v %v", question, name, err, failed)
		}
	}
}
