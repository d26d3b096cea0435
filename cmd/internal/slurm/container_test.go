package slurm

import (
	"fmt"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests the container options of pyxis.

func TestImageOf(t *testing.T) {
	digest := "@sha256:" + strings.Repeat("a", 64)
	for value, want := range map[string]string{
		"ubuntu:24.04": "ubuntu:24.04", "docker://ubuntu": "ubuntu",
		"nvcr.io#nvidia/pytorch:25.01-py3":         "nvcr.io/nvidia/pytorch:25.01-py3",
		"docker://ann@reg.example:5000#team/a_b:1": "reg.example:5000/team/a_b:1",
		"docker://ann@ubuntu:1":                    "ubuntu:1",
		"ghcr.io#a/b" + digest:                     "ghcr.io/a/b" + digest, "a/b" + digest: "a/b" + digest,
		"nvcr.io/nvidia/cuda": "nvcr.io/nvidia/cuda",
		"/lustre/a.sqsh":      "/lustre/a.sqsh", "./a.sqsh": "./a.sqsh", "/images/a.tar": "/images/a.tar",
	} {
		if got, _, err := ImageOf(value); got != want || err != nil {
			t.Errorf("%s is %s (%v), and not %s", value, got, err, want)
		}
	}
	for value, want := range map[string]string{
		"": "is empty", "dockerd://a": "local daemon", "podman://a": "local daemon",
		"https://a/b": "unknown scheme", "host": "not the name",
		"a.sqsh": "write ./a.sqsh", "Ubuntu": "not the name", "a b": "not the name", "a#b#c": "not the name",
		"#b": "not the name",
		"a:": "not the name", "-x": "not the name", "oci:/x": "not the name", "a@sha256:12": "not the name",
	} {
		_, _, err := ImageOf(value)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, and not %s", value, err, want)
		}
	}
}

// contained formats the container of a job.
func contained(spec *messages.JobSpec) string {
	words := []string{spec.GetImage()}
	for _, m := range spec.GetMounts() {
		words = append(words, fmt.Sprintf("%s:%s:%v", m.GetSource(), m.GetTarget(), m.GetReadOnly()))
	}
	return strings.TrimSpace(strings.Join(words, " ") + " " + spec.GetWorkdir())
}

func TestContainer(t *testing.T) {
	const run = " /home/ann/run:/home/ann/run:false"
	for _, c := range []struct{ line, wants string }{
		{"--container-image=nvcr.io#a/b:1", "nvcr.io/a/b:1" + run},
		{"--container-image=./a.sqsh -o /dev/null --container-workdir /w", "/home/ann/run/a.sqsh /w"},
		{"--container-image=a -o /dev/null --container-mounts=/data,/a:/b:ro,rel:/c:rw+rbind",
			"a /data:/data:false /a:/b:true /home/ann/run/rel:/c:false"},
		{"--container-image=a -o /out/%j/x.log -e err --container-mount-home --export=HOME=/home/ann",
			"a /out:/out:false" + run},
		{"--container-image=a -o /tmp/x --no-container-mount-home --container-writable -D /scratch", "a /scratch"},
		{"--container-image=a --container-name=n -o /x/y -D sub", "a /x:/x:false /home/ann/run/sub"},
	} {
		from := here
		home := strings.Contains(c.line, "mount-home")
		if home && !strings.Contains(c.line, "no-container") {
			from.Env = append([]string{"HOME=/home/ann"}, here.Env...)
			c.wants = strings.Replace(c.wants, "a ", "a /home/ann:/home/ann:false ", 1)
		}
		b, text, args, err := Parse(append(strings.Fields(c.line), "--wrap=true"), lookup(""), nil)
		if err != nil {
			t.Errorf("%s: %v", c.line, err)
			continue
		}
		spec, err := b.Job(text, args, from)
		if got := contained(spec); err != nil || got != c.wants || spec.GetSubmitDir() != "" {
			t.Errorf("%s\nis      %s (%v)\nand not %s", c.line, got, err, c.wants)
		}
	}
	for line, want := range map[string]string{
		"--container-mounts=/a":                           "--container-mounts: needs --container-image",
		"--container-name=x":                              "needs --container-image",
		"--container-image=a --container-mounts=/a:b":     "the path in the container is not absolute",
		"--container-image=a --container-mounts=/a:/b:xy": "unsupported flag xy",
		"--container-image=a --container-mounts=/a,":      "is not a mount",
		"--container-image=a --container-workdir=b":       "--container-workdir: \"b\" is a relative path",
		"--container-save=/x":                             "--container-save: is not supported",
		"--container-image=a --container-readonly":        "mount folders with :ro",
		"--container-image=a --container-env=A=1":         "is not the name of a variable",
		"--container-image=a --container-mount-home":      "HOME is not set",
		"--container-image=dockerd://a":                   "--container-image: dockerd://a",
	} {
		b, text, args, err := Parse(append(strings.Fields(line), "--wrap=true"), lookup(""), nil)
		if err == nil {
			_, err = b.Job(text, args, here)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, and not %s", line, err, want)
		}
	}
}

// TestContainerEnv checks that an image keeps its own programs and libraries, unless the submit names a variable.
func TestContainerEnv(t *testing.T) {
	for line, want := range map[string]string{
		"--container-image=a":                                   "KEY=v",
		"--container-image=a --container-env=PATH":              "KEY=v PATH=/opt/bin:/bin",
		"--container-image=a --export=PATH":                     "PATH=/opt/bin:/bin",
		"--container-image=a --export=NONE --container-env=KEY": "KEY=v",
		"--comment=none":                                        "KEY=v PATH=/opt/bin:/bin",
	} {
		b, text, args, err := Parse(append(strings.Fields(line), "--wrap=true"), lookup(""), nil)
		if err != nil {
			t.Fatal(err)
		}
		spec, err := b.Job(text, args, here)
		var got []string
		for _, e := range spec.GetEnv() {
			if !strings.HasPrefix(e.GetName(), "SLURM_") {
				got = append(got, e.GetName()+"="+e.GetValue())
			}
		}
		if strings.Join(got, " ") != want || err != nil {
			t.Errorf("%s exports %v (%v), and not %s", line, got, err, want)
		}
	}
}

// TestStepContainers checks that a job gets the container of its steps, as some programs write them.
func TestStepContainers(t *testing.T) {
	for script, want := range map[string]string{
		"srun --output /x/y --container-image nvcr.io#a/b:1 --container-mounts /d:/e,/f --wait=60 \\\n " +
			"--kill-on-bad-exit=1 ./t\n" +
			"srun --container-image='nvcr.io#a/b:1' --container-mounts=/d:/e t": "nvcr.io/a/b:1 /d:/e:false /f:/f:false",
		"#SBATCH --container-image=a\nsrun --container-image=\"$IMAGE\" --container-mounts $M ./t": "a",
		"# srun --container-image=a\ntrue": "host",
	} {
		spec, _, err := batch("#!/bin/sh\n#SBATCH -o /dev/null\n" + script + "\n")
		if got := strings.TrimSuffix(contained(spec), " /home/ann/run"); got != want || err != nil {
			t.Errorf("%s\nis %s (%v), and not %s", script, got, err, want)
		}
	}
	for script, want := range map[string]string{
		"srun --container-image=a x\nsrun --container-image=b x": "srun --container-image: b: all steps of a job",
		"srun --container-image=$I x":                            "add #SBATCH --container-image",
		"srun --container-image=a --container-mounts=$M x":       "add #SBATCH --container-mounts",
		"srun --container-image=podman://a x":                    "local daemon",
		"srun --container-image=a --container-mounts=a:b x":      "not absolute",
	} {
		_, _, err := batch("#!/bin/sh\n" + script + "\n")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, and not %s", script, err, want)
		}
	}
}
