package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/yi-json/synapse/test/able"
)

// This file tests the container options of pyxis with an image of enroot's format on two nodes.

// squashedShell makes a .sqsh image with the commands of busybox, its environment, and a word in a file.
func squashedShell(t *testing.T, path string) {
	t.Helper()
	able.Need(t, able.Program("busybox"), able.Program("mksquashfs"))
	root := scriptRoot(t)
	busybox := filepath.Join(root, "bin", "sh")
	list, err := exec.Command(busybox, "busybox", "--list").Output()
	if err != nil {
		list, err = exec.Command("busybox", "--list").Output()
	}
	for name := range strings.FieldsSeq(string(list)) {
		if name != "sh" {
			err = errors.Join(err, os.Symlink("sh", filepath.Join(root, "bin", name)))
		}
	}
	scratch := filepath.Join(root, "tmp")
	err = errors.Join(err, os.Mkdir(scratch, 0o755), os.Chmod(scratch, 0o777), os.Mkdir(filepath.Join(root,
		"etc"), 0o755), os.WriteFile(filepath.Join(root, "etc", "environment"),
		[]byte("PATH=/bin\nOF_IMAGE=yes\n"), 0o644), os.WriteFile(filepath.Join(root, "word"),
		[]byte("squashed\n"), 0o644))
	if err != nil {
		t.Fatal(err)
	}
	if text, err := exec.Command("mksquashfs", root, path, "-quiet", "-no-progress",
		"-all-root").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestSlurmContainer runs sbatch and srun in a .sqsh image on two nodes: with mounts, with the image named by the job
// or only by its steps, and with a file that sbcast copies.
func TestSlurmContainer(t *testing.T) {
	c := clusterOf(t, "carapace")
	for _, n := range []string{"n1", "n2"} {
		c.node(n, "r1")
	}
	home := openFolder(t)
	squashedShell(t, filepath.Join(home, "shell.sqsh"))
	cli := filepath.Join(bin, "synapse-cli")
	run := func(words ...string) result {
		t.Helper()
		cmd := c.command(cli, append([]string{"slurm"}, words...)...)
		cmd.Dir = home
		return ask(t, cmd)
	}
	pull := func(words ...string) result {
		t.Helper()
		return ask(t, c.command(cli, append([]string{"image", "pull"}, words...)...))
	}
	image := filepath.Join(home, "shell.sqsh")
	pull(image).wants(t, 0, "n1: the image is loaded\nn2: the image is loaded\n", "")
	pull("-l", "no=such", image).wants(t, 3, "", "no node is up and has these labels")
	run("srun", "-N", "2", "--container-image=./shell.sqsh", "--container-workdir=/bin", "sh", "-c",
		`echo $(cat /word) $OF_IMAGE in $PWD`).
		wants(t, 0, "squashed yes in /bin\nsquashed yes in /bin\n", "")
	script := "#!/bin/sh\n#SBATCH -N 2 -o job.sh.out --container-image=./shell.sqsh\n" +
		"#SBATCH --container-mounts=" + home + ":/data:ro\n" +
		"echo one >/tmp/file\nchmod 755 /tmp/file\n" +
		"sbcast /tmp/file /tmp/copy\nsbcast /tmp/file /tmp/copy && echo twice\n" +
		"srun --container-image=./shell.sqsh --container-mounts=" + home +
		":/data sh -c 'cat /tmp/copy /word; ls /data/shell.sqsh; ls -l /tmp/copy | cut -c1-10'\n" +
		"m=/none:/none\nsrun --container-mounts=$m true\necho x >/data/file\n"
	runs := func(name, script string, words ...string) string {
		t.Helper()
		if err := os.WriteFile(filepath.Join(home, name), []byte(script), 0o644); err != nil {
			t.Fatal(err)
		}
		run(append([]string{"sbatch", "--wait"}, append(words, name)...)...)
		text, err := os.ReadFile(filepath.Join(home, name+".out"))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	text := runs("job.sh", script)
	for want, n := range map[string]int{"one\nsquashed\n/data/shell.sqsh\n-rwxr-xr-x\n": 2, "exists on": 2,
		"twice":                                 0,
		"/none does not exist in the container": 1, "Read-only": 1} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q is %d times in the output, and not %d:\n%s", want, got, n, text)
		}
	}
	steps := "#!/bin/sh\n#SBATCH -N 2 -o steps.sh.out\nsrun --container-image " + home + "/shell.sqsh cat /word\n"
	if text := runs("steps.sh", steps); text != "squashed\nsquashed\n" {
		t.Errorf("a script whose steps name the image printed %q", text)
	}
	run("sbatch", "-N", "2", "--container-image=podman://x", "--wrap=true").wants(t, 1, "",
		"--container-image: podman://x")
}

// openFolder returns a folder in which every user may write.
func openFolder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, one := range []string{filepath.Dir(dir), dir} { // jobs of root have their own users
		if err := os.Chmod(one, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}
