package main

import (
	"strings"
	"testing"

	"github.com/yi-json/synapse/cmd/synapse-cli/internal/exit"
	"github.com/yi-json/synapse/messages"
)

// This file tests input that must not be ignored silently.

// TestNotSilentAnyMore checks that such input is refused with a fix.
func TestNotSilentAnyMore(t *testing.T) {
	f := startFake(t)
	f.jobs = []*messages.JobStatus{job("j1", "running", messages.JobState_JOB_STATE_ACTIVE)}
	f.nodes = []*messages.NodeStatus{machine("n1")}
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"submit --cpu 1 --image host -e CUDA_VISIBLE_DEVICES=0 -- true", exit.Misuse,
			"--env: CUDA_VISIBLE_DEVICES is set by Synapse"},
		{"submit --cpu 1 --image host -e HIP_VISIBLE_DEVICES=0 -- true", exit.Misuse,
			"--env: HIP_VISIBLE_DEVICES is set by Synapse"},
		{"submit --cpu 1 --image host -e SYNAPSE_RANK=7 -- true", exit.Misuse,
			"--env: SYNAPSE_RANK is set by Synapse for each task\nhint: remove it"},
		{"submit --cpu 1 --image host", exit.Misuse, "command is missing"},
		{"submit --cpu 1 --image /srv/i -q -o json", exit.Misuse, "-q and -o cannot be combined"},
		{"get jobs --phase bogus", exit.Misuse,
			"--phase bogus: unknown phase\nhint: use queued, held, reserving, deciding, starting, running, stopping, " +
				"closing, damaged, succeeded, failed, cancelled, timed-out"},
		{"get jobs --phase runing", exit.Misuse, "did you mean \"running\"?"},
		{"get jobs -q -o json", exit.Misuse, "-q and -o cannot be combined"},
		{"get nodes -q -o wide", exit.Misuse, "-q and -o cannot be combined"},
		{"get queues --parsable -o json", exit.Misuse, "--parsable and -o json cannot be combined"},
		{"history -q -o csv", exit.Misuse, "-q and -o cannot be combined"},
		{"--retry -1s get jobs", exit.Misuse, "--retry: \"-1s\" is not a duration\nhint: use a positive amount"},
		{"history --since -5h", exit.Misuse, "--since \"-5h\": not a time"},
		{"wait j1 --timeout -5s", exit.Misuse, "--timeout: \"-5s\" is not a duration"},
		{"events nosuch", exit.NotFound, "no job, node or event matches \"nosuch\""},
		{"events -f j1 nosuch", exit.NotFound, "no job, node or event matches \"nosuch\""},
		{"submit -n x --cpu 1 --image /srv/i", exit.Misuse, "--replicas \"x\": must be a whole number"},
		{"submit -n 99999999999 --cpu 1 --image /srv/i", exit.Misuse,
			"--replicas \"99999999999\": number is too large"},
		{"submit -n -2 --cpu 1 --image /srv/i", exit.Misuse, "--replicas: is -2, outside 1 to 65536"},
		{"submit -n 0 --cpu 1 --image /srv/i", exit.Misuse, "--replicas: is 0, outside 1 to 65536"},
		{"submit --restarts -1 --cpu 1 --image /srv/i", exit.Misuse,
			"--restarts: \"-1\" is not a number of restarts\nhint: write a number, or never"},
		{"submit --gpu 1.5 --image /srv/i", exit.Misuse, "--gpu: must be a whole number of GPUs"},
		{"submit --image /srv/i --cpu 0", exit.Misuse, "job requests no resources\nhint: give --cpu, --mem or --gpu"},
		{"submit --cpu 1 --gpu-type h100 --image /srv/i", exit.Misuse, "--gpu-type: requires gpu"},
		{"logs --tail 0 j1", exit.Misuse, "--tail \"0\": must be a number of lines"},
		{"logs --tail -1 j1", exit.Misuse, "--tail \"-1\": must be a number of lines"},
		{"logs --rank x j1", exit.Misuse, "--rank: \"x\" is not a rank or a range of ranks"},
		{"submit --cpu 1 --image /srv/i --dry-run=", exit.Misuse, "--dry-run is empty\nhint: give it a value"},
		{"submit --cpu 1 --image /srv/i --queue=", exit.Misuse, "--queue is empty"},
		{"submit --cpu 1 --image /srv/i --nodelist=", exit.Misuse, "--nodelist is empty"},
		{"get jobs --phase=", exit.Misuse, "--phase is empty"},
		{"submit --gpu 8 --image /srv/i python train.py", exit.Misuse,
			"file \"python\" does not exist\nhint: write a command after --, as in `-- python train.py`"},
		{"submit --gpu 8 --image /srv/i python --lr 3", exit.Misuse, "write a command and its flags after --"},
		{"submit --cpu 1 --image /srv/i --dry-run -q", exit.Misuse, "--dry-run cannot be combined with -q"},
		{"submit --cpu 1 --image /srv/i -o wide", exit.Misuse, "unknown output format \"wide\"\nhint: use name, json, yaml"},
		{"events -o wide", exit.Misuse, "unknown output format \"wide\"\nhint: use json, yaml"},
		{"drain -l pool=a n1 -r x", exit.Misuse, "NODE and -l cannot be combined"},
		{"drain -l pool=b -r x", exit.NotFound, "no node matches these labels"},
		{"submit --cpu 1 --image /srv/i --patience 5m", exit.Misuse,
			"--patience: requires --preferred\nhint: set --preferred"},
		{"submit -c 1 --image host --launcher deepsped -- a", exit.Misuse, `--launcher "deepsped": unknown launcher`},
		{"submit -c 1 --image host --launcher deepsped -- a", exit.Misuse, `did you mean "deepspeed"?`},
		{"submit -c 1 --image host --warn USR1 -- a", exit.Misuse, `--warn: "USR1" is not a signal and a duration` +
			"\nhint: write a signal and the time before the end, such as USR1@120s"},
		{"submit -c 1 --image host --warn USR3@2m -- a", exit.Misuse,
			`--warn: "USR3" is not a signal` + "\nhint: use SIGHUP"},
		{"submit -c 1 --image host --warn USR1@-2m -- a", exit.Misuse, `--warn: "-2m" is not a duration`},
		{"submit -c 1 --image host --warn USR1@0 -- a", exit.Misuse, "--warn: is 0s, outside "},
		{"submit -c 1 --image host --warn KILL@1m -- a", exit.Misuse, "--warn: is 9, which ends or stops a task"},
		{"submit -c 1 --image host --warn USR1@2m -t 1m -- a", exit.Misuse,
			"--warn: is 2m, longer than the time limit of 1m\nhint: set a shorter warning time, or a longer time limit"},
		{"submit -n 2 -c 1 --image /srv/i --network private", exit.Misuse, "set --required node, or use --network host"},
		{"apply -f job.yaml", exit.Misuse, "open job.yaml: no such file"},
		{"squeue --me", exit.Misuse, "did you mean `synapse-cli get jobs`?"},
		{"get jobs nosuch -q", exit.NotFound, "unknown job \"nosuch\""},
	} {
		r := cli(f.address, strings.Fields(c.args)...)
		r.wants(t, c.code, "", c.want)
		if strings.Contains(r.err, "strconv") || strings.Contains(r.err, "replicas_") || strings.Contains(r.err, "milli_") {
			t.Errorf("%s: speaks of what no user knows: %s", c.args, r.err)
		}
	}
	if sent := told[*messages.Submit](f); len(sent) > 0 {
		t.Errorf("submitted all the same: %v", sent)
	}
	cli(f.address, "get", "jobs", "--phase", "Timed_Out").wants(t, 0, "", "")
	cli(f.address, "submit", "--cpu", "1", "--image", "/srv/i", "-l", "a=b,c=d", "-q").wants(t, 0, "jnew1\n", "")
	if got := told[*messages.Submit](f)[0].GetSpec().GetLabels(); len(got) != 2 || got[1].GetKey() != "c" ||
		got[1].GetValue() != "d" {
		t.Errorf("-l a=b,c=d is %v", got)
	}
	cli(f.address, "events", "j1").wants(t, 0, "", "")
}
