package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/store/sqlite"
)

// This file tests the commands backup and restore with different paths.

// names returns the paths of all files below a folder.
func names(t *testing.T, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if path != dir {
			all = append(all, strings.TrimPrefix(path, dir+"/"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// backedUp changes to a new folder with the data folder `data` of a cluster and a backup of it.
func backedUp(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	if err := os.Mkdir("data", 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := sqlite.Open(filepath.Join("data", databaseFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.ClusterID("c-1"); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := sqlite.BackupFile(filepath.Join("data", databaseFile), "copy.db"); err != nil {
		t.Fatal(err)
	}
}

// TestPathsOfCopies checks relative and absolute paths of the file and the data folder.
func TestPathsOfCopies(t *testing.T) {
	backedUp(t)
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for i, data := range []string{"a", "./b", "c/d/e", "f/", "../" + filepath.Base(here) + "/g", filepath.Join(here, "h"),
		"i #?%20"} {
		file := "copy.db"
		if i%2 == 1 {
			file = filepath.Join(here, file)
		}
		if err := restore(&options{dataDir: data}, file); err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		s, err := sqlite.Open(filepath.Join(data, databaseFile))
		if err != nil {
			t.Fatalf("%s: %v", data, err)
		}
		if id, err := s.ClusterID("c-2"); err != nil || id != "c-1" {
			t.Errorf("%s: the cluster is %s (%v)", data, id, err)
		}
		_ = s.Close()
		if err := sqlite.BackupFile(filepath.Join(data, databaseFile), data+"-again.db"); err != nil && data != "f/" {
			t.Errorf("%s: %v", data, err)
		}
	}
	for _, name := range names(t, here) {
		if strings.Contains(name, "restoring") || strings.Contains(name, "partial") {
			t.Errorf("%s is left", name)
		}
	}
}

// TestFailedRestoreLeavesNothing checks that a failed restore removes exactly what it created.
func TestFailedRestoreLeavesNothing(t *testing.T) {
	backedUp(t)
	if err := os.WriteFile("damaged.db", []byte("no database"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir("empty", 0o700); err != nil {
		t.Fatal(err)
	}
	here, _ := os.Getwd()
	before := strings.Join(names(t, here), " ")
	for _, data := range []string{"none", "one/two/three", "empty"} {
		for _, file := range []string{"missing.db", "damaged.db"} {
			if err := restore(&options{dataDir: data}, file); err == nil {
				t.Errorf("%s: %s was restored", data, file)
			}
			if after := strings.Join(names(t, here), " "); after != before {
				t.Errorf("%s from %s left %s, and there was %s", data, file, after, before)
			}
		}
	}
}

// TestInterruptedRestoreDoesNotStart checks that after a killed restore a scheduler refuses the data folder, and
// that the next restore names what to remove.
func TestInterruptedRestoreDoesNotStart(t *testing.T) {
	backedUp(t)
	for _, left := range []string{"new.restoring", filepath.Join("there", databaseFile+".partial")} {
		if err := os.MkdirAll(left, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, data := range []string{"new", "there"} {
		s := &scheduler{options: options{store: storeSQLite, dataDir: data}}
		if err := s.open(nil); err == nil || !strings.Contains(err.Error(), "run the restore again") {
			t.Errorf("%s: a scheduler starts: %v", data, err)
		}
		if err := restore(&options{dataDir: data}, "copy.db"); err == nil {
			t.Errorf("%s was restored", data)
		}
		if _, err := os.Stat(filepath.Join(data, databaseFile)); err == nil {
			t.Errorf("%s has a database", data)
		}
	}
	s := &scheduler{options: options{store: storeSQLite, dataDir: "data"}}
	if err := s.open(nil); err != nil {
		t.Fatal(err)
	}
	_ = s.store.(*sqlite.Store).Close()
}
