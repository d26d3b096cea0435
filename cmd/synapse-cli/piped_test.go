//go:build unix

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests input through a pipe, and files that are not job files.

// TestPiped checks that a script is recognized in any input, and that a list of jobs is submitted job by job.
func TestPiped(t *testing.T) {
	f := startFake(t)
	f.jobs = []*messages.JobStatus{
		job("j1", "running", messages.JobState_JOB_STATE_ACTIVE), job("j2", "queued", messages.JobState_JOB_STATE_QUEUED),
	}
	const script = "#!/bin/sh\necho here\n"
	const shown = "  script: |\n    #!/bin/sh\n    echo here\n"
	cliWith(f.address, script, nil, "submit", "-", "--dry-run").wants(t, 0, shown, "")
	cliWith(f.address, script, nil, "submit", "-f", "-", "--dry-run", "-c", "2").wants(t, 0, shown, "")
	pipe := filepath.Join(t.TempDir(), "pipe")
	for _, flags := range [][]string{nil, {"-c", "2"}} {
		piped(t, pipe, script)
		r := cli(f.address, append(append([]string{"submit", "--dry-run"}, flags...), pipe)...)
		if r.wants(t, 0, shown, ""); strings.Contains(r.out, "scriptName") {
			t.Errorf("a pipe gives its name to a script:\n%s", r.out)
		}
	}
	list := cli(f.address, "get", "jobs", "-o", "yaml").out
	cliWith(f.address, list, nil, "submit", "-", "--dry-run").wants(t, 0, "name: n-j2", "")
	cliWith(f.address, list, nil, "submit", "-", "-q").wants(t, 0, "jnew1\njnew1\n", "")
	if sent := told[*messages.Submit](f); len(sent) != 2 || sent[1].GetSpec().GetName() != "n-j2" {
		t.Errorf("%v", sent)
	}
	wrong := strings.Replace(list, "name: n-j2", "name: N J2", 1)
	cliWith(f.address, wrong, nil, "submit", "-").wants(t, exit.Misuse, "", "metadata.name: \"N J2\" is not a name")
	if len(told[*messages.Submit](f)) != 2 {
		t.Error("the first of a list was submitted before the second was looked at")
	}
}

// piped writes a text into a pipe for the next reader.
func piped(t *testing.T, pipe, text string) {
	t.Helper()
	_ = os.Remove(pipe)
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	go func() { _ = os.WriteFile(pipe, []byte(text), 0o600) }()
}

// TestDocuments checks that several YAML objects are separate documents, and that a dry run prints an object.
func TestDocuments(t *testing.T) {
	f := startFake(t)
	two := jobYAML + "---\n" + strings.Replace(jobYAML, "filed", "second", 1)
	r := cliWith(f.address, two, nil, "submit", "-", "-o", "yaml")
	if r.wants(t, 0, "\n---\napiVersion: synapse/v1\n", ""); strings.HasPrefix(r.out, "---") {
		t.Errorf("a mark before the first:\n%s", r.out)
	}
	cliWith(f.address, jobYAML, nil, "submit", "-", "--dry-run", "-o", "json").wants(t, 0, "\"kind\": \"Job\"", "")
}

// TestNoFileWithJobs checks the hint for a file that is not a job file.
func TestNoFileWithJobs(t *testing.T) {
	f := startFake(t)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"train.py": "import torch\nprint(torch)\n", "program": "\x7fELF\x02\x01\x01\x00\x00", "notes.txt": "- buy milk\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
		cli(f.address, "submit", path).wants(t, exit.Misuse, "",
			name+" is neither a script nor a job file: a job file starts with "+
				"`apiVersion: synapse/v1`\nhint: start a script with #!; write a command after --")
	}
	cli(f.address, "submit", dir).wants(t, exit.Misuse, "", " is a directory, not a file of jobs")
}

// TestAdviceForSBATCH checks that the warning about an #SBATCH line names flags that exist here and have the same
// meaning.
func TestAdviceForSBATCH(t *testing.T) {
	remark := regexp.MustCompile(` \([^)]*\)`)
	for line, want := range map[string]string{
		" -t 60":                             "-t 60m",
		" --time=30:00":                      "-t 0:30:00",
		" --time=1-12":                       "-t 1-12",
		" -t 01:30:00  # an hour and a half": "-t 01:30:00",
		" -c 2 --mem=10G":                    "-c 2 --mem 10Gi (per task, with -n or -N)",
		" --mem=4000 -n 2":                   "--mem 4000Mi (per task, with -n or -N) -n 2",
		" -N 2 --gres=gpu:4":                 "-N 2 --gpu 4 (per node, with -N)",
		" -N2 --gpus-per-node=a100:4":        "-N 2 --gpu 4 --gpu-type a100 (per node, with -N)",
		" --gres=gpu:A100:8 -N 1":            "--gpu 8 --gpu-type a100 (per node, with -N) -N 1",
		" -J My_Job --partition=long":        "--name My_Job --queue long",
		" -G 8":                              "--gpus 8",
		" -w n1,n2 -x n3":                    "-w n1,n2 -x n3",
	} {
		got := sbatch(line)
		if got != "use "+want {
			t.Errorf("#SBATCH%s is answered with %q, and not %q", line, got, "use "+want)
		}
		flags := strings.Fields(remark.ReplaceAllString(strings.TrimPrefix(got, "use "), ""))
		args := append(append([]string{"submit", "--dry-run", "--image", "host"}, flags...), "--", "true")
		cli("", args...).wants(t, 0, "kind: Job", "")
	}
}
