//go:build world

package world

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/test/able"
)

// This file tests the compose file. runc executes its content here, with the image of this commit.

// composed holds the keys of the compose file that this test supports. An unknown key is a failure.
type composed struct {
	Services struct {
		Scheduler struct {
			Image   string
			User    string
			Command []string
			Ports   []string
			Volumes []string
			Only    bool     `yaml:"read_only"`
			Drop    []string `yaml:"cap_drop"`
			Options []string `yaml:"security_opt"`
			Restart string
			Grace   string `yaml:"stop_grace_period"`
		}
	}
}

// composeUser is the user who created the folders.
const composeUser = 10017

// TestComposed runs a scheduler from the image as in the compose file, as the user who created its folders and without
// further permissions. A node must join, and a job must run and continue when the container is replaced.
func TestComposed(t *testing.T) {
	t.Parallel()
	able.Need(t, able.Containers, able.Cgroups, able.Networks, able.Program("runc"), able.Program("git"))
	folder := room(t)
	var c composed
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err == nil {
		decoder := yaml.NewDecoder(strings.NewReader(string(text)))
		decoder.KnownFields(true)
		err = decoder.Decode(&c)
	}
	if err != nil {
		t.Fatal(err)
	}
	s := c.Services.Scheduler
	if !s.Only || len(s.Drop) != 1 || s.Drop[0] != "ALL" || len(s.Options) != 1 ||
		s.Options[0] != "no-new-privileges:true" || len(s.Ports) != 1 || s.Ports[0] != "9000:9000" {
		t.Fatalf("the compose file has settings that this test does not support: %+v", s)
	}
	entry := unpackImage(t, folder)
	mounts := []map[string]any{
		{"destination": "/proc", "type": "proc", "source": "proc"},
		{"destination": "/dev", "type": "tmpfs", "source": "tmpfs"},
		{"destination": "/tmp", "type": "tmpfs", "source": "tmpfs"},
	}
	for _, v := range s.Volumes {
		from, to, _ := strings.Cut(v, ":")
		mounts = append(mounts, map[string]any{"destination": to, "type": "bind", "source": filepath.Join(folder, from),
			"options": []string{"bind", "rw"}})
	}
	config, err := json.Marshal(map[string]any{
		"ociVersion": "1.0.2", "root": map[string]any{"path": "root", "readonly": true}, "mounts": mounts,
		"process": map[string]any{"args": append(entry, s.Command...), "cwd": "/", "noNewPrivileges": true,
			"capabilities": map[string]any{"bounding": []string{}, "effective": []string{}, "permitted": []string{}},
			"user":         map[string]any{"uid": composeUser, "gid": composeUser}},
		"linux": map[string]any{"namespaces": []map[string]any{{"type": "mount"}, {"type": "pid"}, {"type": "ipc"}}},
	})
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "config.json"), config, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	said, err := exec.Command("unshare", "--net", "bash", "testdata/composed.sh", folder, fmt.Sprint(composeUser)).
		CombinedOutput()
	if err != nil || !strings.Contains(string(said), "it ran on through both") {
		t.Fatalf("%v: %s", err, said)
	}
}

// unpackImage builds the image of this commit and unpacks its root. It returns the image's own command. The root also
// contains the programs for the node.
func unpackImage(t *testing.T, folder string) (entry []string) {
	t.Helper()
	dist, err := distributed()
	if err != nil {
		t.Fatal(err)
	}
	const script = `mkdir "$1/image" "$1/root" && tar -xf "$2"/synapse_*_image.tar -C "$1/image"`
	if text, err := exec.Command("sh", "-ec", script, "sh", folder, dist).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	index, err := layout.ImageIndexFromPath(filepath.Join(folder, "image"))
	if err != nil {
		t.Fatal(err)
	}
	all, err := index.IndexManifest() // from one index with all platforms
	if err == nil {
		index, err = index.ImageIndex(all.Manifests[0].Digest)
	}
	if err == nil {
		all, err = index.IndexManifest()
	}
	if err != nil {
		t.Fatal(err)
	}
	image, err := index.Image(all.Manifests[0].Digest)
	if err != nil {
		t.Fatal(err)
	}
	files := mutate.Extract(image)
	defer files.Close()
	extract := exec.Command("tar", "-xf", "-", "-C", filepath.Join(folder, "root"))
	extract.Stdin = files
	if text, err := extract.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	return config.Config.Entrypoint
}
