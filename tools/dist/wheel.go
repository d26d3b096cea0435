package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// This file writes the wheel of the Python client: a zip of its files, with three files of metadata. Python's own tools
// would have to be downloaded, and they record the time of the build.

const (
	clientFolder  = "clients/python"
	clientPackage = "synapse_client"
)

// wheelTime is the time of every file in a wheel: the earliest that a zip can store.
var wheelTime = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// wheel returns the wheel of the client in root.
func wheel(root string) (product, error) {
	project, err := os.ReadFile(filepath.Join(root, clientFolder, "pyproject.toml"))
	if err != nil {
		return product{}, err
	}
	said := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z-]+) = "([^"]*)"$`).FindAllStringSubmatch(string(project), -1) {
		said[m[1]] = m[2]
	}
	for _, key := range []string{"name", "version", "description", "requires-python"} {
		if said[key] == "" {
			return product{}, fmt.Errorf("%s/pyproject.toml has no %s", clientFolder, key)
		}
	}
	files := map[string][]byte{}
	for _, pattern := range []string{"*.py", "py.typed"} {
		found, err := filepath.Glob(filepath.Join(root, clientFolder, clientPackage, pattern))
		if err != nil {
			return product{}, err
		}
		for _, name := range found {
			if files[clientPackage+"/"+filepath.Base(name)], err = os.ReadFile(name); err != nil {
				return product{}, err
			}
		}
	}
	stem := clientPackage + "-" + said["version"]
	about := stem + ".dist-info/"
	files[about+"METADATA"] = fmt.Appendf(nil,
		"Metadata-Version: 2.1\nName: %s\nVersion: %s\nSummary: %s\nRequires-Python: %s\n",
		said["name"], said["version"], said["description"], said["requires-python"])
	files[about+"WHEEL"] = []byte("Wheel-Version: 1.0\nGenerator: synapse\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
	body, err := zipped(files, about+"RECORD")
	return product{stem + "-py3-none-any.whl", body}, err
}

// zipped returns an archive of files, with a record of them as the last.
func zipped(files map[string][]byte, record string) ([]byte, error) {
	var names []string
	for name := range files {
		names = append(names, name)
	}
	slices.Sort(names)
	var lines strings.Builder
	for _, name := range names {
		sum := sha256.Sum256(files[name])
		fmt.Fprintf(&lines, "%s,sha256=%s,%d\n", name, base64.RawURLEncoding.EncodeToString(sum[:]), len(files[name]))
	}
	files[record] = []byte(lines.String() + record + ",,\n")
	var out bytes.Buffer
	to := zip.NewWriter(&out)
	for _, name := range append(names, record) {
		header := &zip.FileHeader{Name: path.Clean(name), Method: zip.Deflate, Modified: wheelTime}
		header.SetMode(0o644)
		w, err := to.CreateHeader(header)
		if err == nil {
			_, err = w.Write(files[name])
		}
		if err != nil {
			return nil, err
		}
	}
	err := to.Close()
	return out.Bytes(), err
}

// writeWheel writes only the wheel into a folder.
func writeWheel(root, out string) error {
	made, err := wheel(root)
	if err == nil {
		err = os.MkdirAll(out, 0o755)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(out, made.name), made.body, 0o644)
	}
	if err == nil {
		fmt.Println(filepath.Join(out, made.name))
	}
	return err
}
