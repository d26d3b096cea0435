package e2e

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file tests that synapse-submit behaves like synapse-cli: the same output, errors, exit codes and jobs. It also
// tests which calls synapse-submit serves without synapse-cli.

// alikeFiles are the scripts of the calls.
var alikeFiles = map[string]string{
	"job.sh": "#!/bin/sh\n#SBATCH -J 'Both of them' -N2 --ntasks-per-node=3 --mem 2G\n" +
		"#SBATCH -o %x-%j.out # comment\ntrue\n",
	"wrong.sh":  "#!/bin/sh\n#SBATCH --no-such-option\ntrue\n",
	"quote.sh":  "#!/bin/sh\n#SBATCH -J 'open\ntrue\n",
	"plain.txt": "no script\n",
	"step.sh":   "#!/bin/sh\nsrun --container-image=alpine true\n",
	"sstat.sh":  "#!/bin/sh\nsstat 7\n",
	"crlf.sh":   "#!/bin/sh\r\ntrue\r\n",
}

// alikeCalls are the command lines. served means that synapse-submit needs no synapse-cli.
var alikeCalls = []struct {
	line   string
	served bool
	env    string
}{
	{line: "job.sh", served: true},
	{line: "job.sh one 'two three'", served: true},
	{line: "--parsable job.sh", served: true},
	{line: "-J x -p default -A team -t 1:30:00 -c 2 --nice job.sh", served: true},
	{line: "-n 4 --gpus-per-task=2 --mem-per-gpu=1G --comment 'a \"b\" \\ é' --wrap true", served: true},
	{line: "--gres=gpu:2 -N1 -n1 --ntasks-per-node=1 --no-requeue --open-mode=append -e err job.sh", served: true},
	{line: "--export=NONE,A=b,PATH -D /tmp --priority 7 -q 5 -Q -s job.sh", served: true},
	{line: "-N1 -n1 --ntasks-per-node=1 --wrap 'echo $HOME; exit 3'", served: true},
	{line: "-N1 --wrap true", env: "A_VALUE=line\nand \x01 tab\t", served: true},
	{line: "-N1 --wrap true", env: "A_VALUE=\xff"},
	{line: "--wrap true", env: "SBATCH_PARTITION=default"},
	{line: "--wrap true", env: "SBATCH_TIMELIMIT=nonsense"},
	{line: "--wrap true", env: "SYNAPSE_RETRY=soon"},
	{line: "-a 1-3 --wrap true"}, {line: "--begin=midnight --wrap true"}, {line: "--exclusive --wrap true"},
	{line: "--mem=0 --wrap true", served: true}, {line: "-d afterok:1 --wrap true"},
	{line: "--signal=USR1@10 --wrap true"},
	{line: "--mail-type=END --wrap true"}, {line: "--part default --wrap true"}, {line: "-Qs --wrap true", served: true},
	{line: "--test-only --wrap true"}, {line: "-J=x --wrap true"}, {line: "--nodes --wrap true"},
	{line: "-n 0 --wrap true"}, {line: "-t never --wrap true"}, {line: "-p no-such-queue --wrap true", served: true},
	{line: "-J '' --wrap true"}, {line: "-o %y --wrap true"}, {line: "--wrap true job.sh"}, {line: "-N 2 -n 1 job.sh"},
	{line: "-D relative/folder -J '***' --wrap true", served: true},
	{line: "--mem 999999T --wrap true"}, {line: "-t 99999-0 --wrap true"}, {line: "--nonsense"}, {line: "-J"},
	{line: "no-such-file"}, {line: "."}, {line: "wrong.sh"}, {line: "quote.sh"}, {line: "plain.txt"}, {line: "step.sh"},
	{line: "sstat.sh"}, {line: "crlf.sh"}, {line: ""}, {line: "-"}, {line: "--version"}, {line: "--help"},
	{line: "-- job.sh", served: true},
}

var jobNumber = regexp.MustCompile(`\d{9,10}`)

// aloneIn returns a copy of synapse-submit in a folder without synapse-cli.
func aloneIn(t *testing.T, dir string) string {
	t.Helper()
	alone := filepath.Join(dir, "synapse-submit")
	text, err := os.ReadFile(filepath.Join(bin, "synapse-submit"))
	if err == nil {
		err = os.WriteFile(alone, text, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return alone
}

// linkTo returns a link to a program, with the name of a command.
func linkTo(t *testing.T, program, name string) string {
	t.Helper()
	link := filepath.Join(t.TempDir(), name)
	if err := os.Symlink(program, link); err != nil {
		t.Fatal(err)
	}
	return link
}

// TestSubmitAlike compares the two programs in a cluster without TLS.
func TestSubmitAlike(t *testing.T) {
	c := newCluster(t)
	c.node("n1", "r1")
	c.node("n2", "r1")
	submitsAlike(t, c, "SYNAPSE_TLS=")
}

// TestSlurmLinks checks that all links start synapse-submit, and that a link of an earlier version is replaced.
func TestSlurmLinks(t *testing.T) {
	everywhere(t)
	t.Parallel()
	dir := t.TempDir()
	if err := os.Symlink(filepath.Join(bin, "synapse-cli"), filepath.Join(dir, "sbatch")); err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t}
	for range 2 {
		c.cli("slurm", "install", dir).wants(t, 0, filepath.Join(dir, "sbatch"), "")
		for _, name := range []string{"sbatch", "squeue", "scancel", "sinfo"} {
			if to, err := os.Readlink(filepath.Join(dir, name)); err != nil || filepath.Base(to) != "synapse-submit" {
				t.Errorf("%s is a link to %s (%v), want synapse-submit", name, to, err)
			}
		}
	}
}

// TestSubmitAlikeSecured compares the two programs with a user's certificate.
func TestSubmitAlikeSecured(t *testing.T) {
	s := newSecured(t)
	for _, id := range []string{"n1", "n2"} {
		s.node(id, "r1", "--tls", s.folder("node", id))
	}
	submitsAlike(t, s.cluster, "SYNAPSE_TLS="+filepath.Join(s.keys, "admin"))
}

// TestSubmitAlikeLoggedIn compares the two programs after a login with a token.
func TestSubmitAlikeLoggedIn(t *testing.T) {
	s := newSecured(t)
	s.node("n1", "r1", "--tls", s.folder("node", "n1"))
	s.node("n2", "r1", "--tls", s.folder("node", "n2"))
	token, contexts := filepath.Join(t.TempDir(), "token"), filepath.Join(t.TempDir(), "contexts.yaml")
	s.as(filepath.Join(s.keys, "admin"), "token", "create", "--user", "ada", "--role", "submitter", "--out", token).
		wants(t, 0, "", "")
	login := s.command(filepath.Join(bin, "synapse-cli"), "login", s.address, "--token-file", token)
	login.Env = append(login.Env, "SYNAPSE_CONTEXTS="+contexts, "SYNAPSE_SERVER=")
	ask(t, login).wants(t, 0, "", "")
	submitsAlike(t, s.cluster, "SYNAPSE_CONTEXTS="+contexts, "SYNAPSE_SERVER=", "SYNAPSE_TLS=")
}

func submitsAlike(t *testing.T, c *cluster, env ...string) {
	ready := c.command(filepath.Join(bin, "synapse-cli"), "get", "jobs")
	ready.Env = append(ready.Env, env...)
	ask(t, ready).wants(t, 0, "", "")
	home := t.TempDir()
	for name, text := range alikeFiles {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	alone := aloneIn(t, home)
	for _, call := range alikeCalls {
		run := func(program string) (result, *messages.JobSpec) {
			before := c.newestJob().GetRecord().GetId()
			cmd := c.command("sh", "-c", `name=$1; shift; exec "$name" `+call.line, "sh", program)
			cmd.Dir, cmd.Env = home, append(append(cmd.Env, "PATH=/usr/bin:/bin", call.env), env...)
			got := ask(t, cmd)
			got.out, got.err = jobNumber.ReplaceAllString(got.out, "N"), jobNumber.ReplaceAllString(got.err, "N")
			newest := c.newestJob()
			if newest.GetRecord().GetId() == before {
				return got, nil
			}
			_, err := c.client.Cancel(c.ctx(), &messages.Cancel{Job: newest.GetRecord().GetId(), Reason: "test"})
			if err != nil && status.Code(err) != codes.AlreadyExists { // a short job may have ended
				t.Fatal(err)
			}
			return got, c.job(newest.GetRecord().GetId()).GetRecord().GetSpec()
		}
		named := func(program string) string { return linkTo(t, program, "sbatch") }
		want, wantJob := run(named(filepath.Join(bin, "synapse-cli")))
		got, gotJob := run(named(filepath.Join(bin, "synapse-submit")))
		if call.served && wantJob == nil {
			t.Errorf("sbatch %s is to submit a job: %q", call.line, want.err)
		}
		if got.code != want.code || got.out != want.out || got.err != want.err || !proto.Equal(gotJob, wantJob) {
			t.Errorf("sbatch %s (%q): synapse-submit ended with %d, %q, %q, %v\nsynapse-cli with %d, %q, %q, %v", call.line,
				call.env, got.code, got.out, got.err, gotJob, want.code, want.out, want.err, wantJob)
		}
		if got, _ := run(named(alone)); (got.code != 127) != call.served {
			t.Errorf("sbatch %s: alone, synapse-submit ended with %d, %q; served is to be %v", call.line, got.code, got.err,
				call.served)
		}
	}
	listsAlike(t, c, env)
	for _, name := range []string{"squeue", "scancel", "synapse-submit", "synctl"} { // the name decides what an error is
		run := func(program string) result {
			cmd := c.command(filepath.Join(bin, program), "--no-such-flag")
			cmd.Args[0], cmd.Env = name, append(cmd.Env, env...)
			return ask(t, cmd)
		}
		got, want := run("synapse-submit"), run("synapse-cli")
		if got.code != want.code || got.out != want.out || got.err != want.err || want.err == "" {
			t.Errorf("%s ended with %d, %q, %q\nsynapse-cli with %d, %q, %q", name, got.code, got.out, got.err, want.code,
				want.out, want.err)
		}
	}
}
