package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestWheel checks that the wheel is the same each time, that it has every file of the client with its checksum, and
// that Python imports it.
func TestWheel(t *testing.T) {
	first, err := wheel("../..")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := wheel("../.."); err != nil || !bytes.Equal(first.body, again.body) {
		t.Errorf("a second build differs: %v", err)
	}
	in, err := zip.NewReader(bytes.NewReader(first.body), int64(len(first.body)))
	if err != nil {
		t.Fatal(err)
	}
	files, record := map[string]bool{}, ""
	sums := ""
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if files[f.Name] = true; strings.HasSuffix(f.Name, "/RECORD") {
			record, sums = string(text), sums+f.Name+",,\n"
			continue
		}
		sum := sha256.Sum256(text)
		sums += fmt.Sprintf("%s,sha256=%s,%d\n", f.Name, base64.RawURLEncoding.EncodeToString(sum[:]), len(text))
	}
	if record != sums {
		t.Errorf("the record is\n%s, but the wheel has\n%s", record, sums)
	}
	sources, err := filepath.Glob("../../clients/python/synapse_client/*.py")
	if err != nil || len(sources) < 5 {
		t.Fatalf("%d sources: %v", len(sources), err)
	}
	for _, name := range sources {
		if !files[clientPackage+"/"+filepath.Base(name)] {
			t.Errorf("%s is not in the wheel", name)
		}
	}
	t.Run("imported", func(t *testing.T) { imports(t, first) })
}

// imports makes Python import a wheel, which is possible without installing it.
func imports(t *testing.T, made product) {
	if _, err := exec.LookPath("python3"); err != nil {
		t.Skip("python3 is not installed")
	}
	file := filepath.Join(t.TempDir(), made.name)
	if err := os.WriteFile(file, made.body, 0o600); err != nil {
		t.Fatal(err)
	}
	run := exec.Command("python3", "-c", "import synapse_client as s; print(s.__version__, s.spec(['true']).name)")
	run.Dir, run.Env = t.TempDir(), append(os.Environ(), "PYTHONPATH="+file)
	said, err := run.CombinedOutput()
	version := strings.Split(made.name, "-")[1]
	if err != nil || strings.TrimSpace(string(said)) != version+" true" {
		t.Errorf("%v: %s, want version %s", err, said, version)
	}
}
