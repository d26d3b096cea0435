//go:build linux

package image_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/yi-json/synapse/runtime/image"
)

// TestMerge checks that a job's command replaces entrypoint and arguments. The job's variables have priority, and the
// image adds the others.
func TestMerge(t *testing.T) {
	config := image.Config{
		Entrypoint: []string{"/init"}, Cmd: []string{"serve"}, Env: []string{"PATH=/opt/bin", "A=image", "B=image"},
		WorkingDir: "/srv", User: "app",
	}
	for _, c := range []struct {
		name   string
		config image.Config
		job    image.Run
		want   image.Run
	}{
		{"nothing from the job", config, image.Run{},
			image.Run{Command: []string{"/init", "serve"}, Env: config.Env, Workdir: "/srv", User: "app"}},
		{
			"all from the job", config,
			image.Run{Command: []string{"train"}, Env: []string{"B=job", "C=job", "A="}, Workdir: "/w", User: "alice"},
			image.Run{
				Command: []string{"train"}, Env: []string{"PATH=/opt/bin", "A=", "B=job", "C=job"}, Workdir: "/w", User: "alice",
			},
		},
		{"arguments alone", image.Config{Cmd: []string{"sh", "-c", "x"}}, image.Run{},
			image.Run{Command: []string{"sh", "-c", "x"}}},
		{"a name said twice", image.Config{}, image.Run{Command: []string{"c"}, Env: []string{"A=1", "A=2"}},
			image.Run{Command: []string{"c"}, Env: []string{"A=2"}}},
	} {
		got, err := c.config.Merge(c.job)
		if err != nil || !slices.Equal(got.Command, c.want.Command) || !slices.Equal(got.Env, c.want.Env) ||
			got.Workdir != c.want.Workdir || got.User != c.want.User {
			t.Errorf("%s: %+v %v, want %+v", c.name, got, err, c.want)
		}
	}
	if _, err := (image.Config{}).Merge(image.Run{}); err == nil || !strings.HasPrefix(err.Error(), "command: ") {
		t.Errorf("nothing to run: %v", err)
	}
	if len(config.Env) != 3 || config.Env[1] != "A=image" {
		t.Errorf("the image's own was changed: %v", config.Env)
	}
}
