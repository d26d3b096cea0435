package e2e

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/test/able/pace"
)

// This file tests that squeue and scancel of synapse-submit behave like those of synapse-cli. It also tests which calls
// synapse-submit serves without synapse-cli.

// outcome is the result of a call. jobs has the states of the jobs after it.
type outcome struct {
	code           int
	out, err, jobs string
}

// queueCalls are the command lines of squeue. $one and $two are the numbers of two held jobs.
var queueCalls = []struct {
	line   string
	served bool
	env    string
}{
	{line: "", served: true}, {line: "-h", served: true}, {line: "-h -j $one -o %T", served: true},
	{line: "-hj $one,$two -o '%i %j %t|%M %l'", served: true}, {line: "--me", served: true}, {line: "-l", served: true},
	{line: "-h -u nobody-here", served: true}, {line: "-rh -t PD,R -n alike-one", served: true},
	{line: "-t all -h -o '%i %T' -j $one", served: true}, {line: "-w n1 -h", served: true},
	{line: "-p x -A y -q z", served: true},
	{line: "-h -o '%.2i\u00e9'", served: true}, {line: "--me=false -h", served: true},
	{line: "-h -o %S"}, {line: "-h -o %all"}, {line: "-h -O JobID"}, {line: "-j 7"}, {line: "-t nonsense"},
	{line: "-o %!"},
	{line: "--json -j 7"}, {line: "--job $one -h"}, {line: "-S i -h"}, {line: "--me=soon"}, {line: "nonsense"},
	{line: "-j"}, {line: "--start -h"}, {line: "-a -h"}, {line: "--help"}, {line: "--version"},
	{line: "-h", env: "SQUEUE_FORMAT=%i"}, {line: "-h", env: "SQUEUE_STATES=nonsense"},
}

// listsAlike compares squeue and scancel of the two programs.
func listsAlike(t *testing.T, c *cluster, env []string) {
	cli, quick := filepath.Join(bin, "synapse-cli"), filepath.Join(bin, "synapse-submit")
	alone := aloneIn(t, t.TempDir())
	run := func(program, name, line, more string) outcome {
		cmd := c.command("sh", "-c", `name=$1; shift; exec "$name" `+line, "sh", linkTo(t, program, name))
		cmd.Env = append(append(cmd.Env, "PATH=/usr/bin:/bin", more), env...)
		got := ask(t, cmd)
		return outcome{code: got.code, out: got.out, err: got.err}
	}
	for limit := pace.Until(30 * time.Second); run(cli, "squeue", "-h", "").out != ""; { // earlier jobs end
		if time.Now().After(limit) {
			t.Fatal("the earlier jobs have not ended")
		}
		time.Sleep(50 * time.Millisecond)
	}
	submit := func(name string) string {
		if got := run(cli, "sbatch", "-H -J "+name+" --wrap true", ""); got.code != 0 {
			t.Fatalf("sbatch ended with %+v", got)
		}
		return c.newestJob().GetRecord().GetId()
	}
	jobs := []string{submit("alike-one"), submit("alike-two")}
	put := func(line string) string {
		return strings.NewReplacer("$one", messages.NumericID(jobs[0]), "$two", messages.NumericID(jobs[1])).Replace(line)
	}
	for _, call := range queueCalls {
		line := put(call.line)
		want, got := run(cli, "squeue", line, call.env), run(quick, "squeue", line, call.env)
		if got != want || call.served && want.code != 0 {
			t.Errorf("squeue %s (%q): synapse-submit ended with %+v\nsynapse-cli with %+v", line, call.env, got, want)
		}
		if got := run(alone, "squeue", line, call.env); (got.code != 127) != call.served {
			t.Errorf("squeue %s: alone, synapse-submit ended with %+v; served is to be %v", line, got, call.served)
		}
	}
	for _, call := range []struct {
		line   string
		served bool
	}{
		{"$one", true}, {"-n alike-one", true}, {"$one,$two", true}, {"--me -t PD -n alike-two", true},
		{"-u nobody-here", true},
		{"7", false}, {"", false}, {"-s nonsense $one", false}, {"$one.batch", false}, {"--nonsense", false},
		{"-t nonsense", false}, {"--help", false}, {"-Q $one", false},
	} {
		var results []outcome
		for _, program := range []string{cli, quick, alone} {
			jobs = []string{submit("alike-one"), submit("alike-two")}
			got := run(program, "scancel", put(call.line), "")
			for _, id := range jobs { // which jobs are cancelled belongs to the result
				got.jobs += " " + c.job(id).GetRecord().GetState().String()
				_, _ = c.client.Cancel(c.ctx(), &messages.Cancel{Job: id, Reason: "test"})
			}
			got.out, got.err = jobNumber.ReplaceAllString(got.out, "N"), jobNumber.ReplaceAllString(got.err, "N")
			results = append(results, got)
		}
		if results[0] != results[1] || call.served != (results[2] == results[1]) {
			t.Errorf("scancel %s: synapse-cli, synapse-submit and synapse-submit alone ended with\n%+v", call.line, results)
		}
	}
}
