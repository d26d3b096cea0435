package slurm

import (
	"slices"

	"github.com/yi-json/synapse/messages"
)

// This file has the code for the REST API alone: the objects of answers, and the options of a submit by another
// program.

// States returns all states of jobs, sorted.
func States() (all []string) {
	for state := range short { //order: sorted below
		all = append(all, state)
	}
	slices.Sort(all)
	return all
}

// Described returns the options of a job that a client describes without a command line. The lines #SBATCH of its
// script are comments, as for slurmrestd.
func Described(words []string, script []byte) (*Batch, error) {
	b := newBatch(forSbatch)
	if !messages.IsScript(script) {
		return nil, &Refusal{Option: "script", Text: "must begin with #!",
			Hint: "name the interpreter in the first line, such as #!/bin/bash"}
	}
	if _, err := b.take(words); err != nil {
		return nil, err
	}
	if err := b.stepContainers(script); err != nil {
		return nil, err
	}
	return b, found(script)
}

// Elsewhere returns an error if a submit needs the host of the user: its time zone, its warnings, or a wait for the
// job.
func (b *Batch) Elsewhere() error {
	switch {
	case b.Wait, b.TestOnly, len(b.warnings) > 0:
		return refuse("use the sbatch of synapse-cli", "--wait, --test-only or an option with a warning")
	case b.beginUnixMs != 0 || b.deadlineUnixMs != 0:
		return refuse("use the sbatch of synapse-cli", "--begin or --deadline, which need the time zone of the user")
	}
	return nil
}

// Counted returns a count that is set.
func Counted(n int64) map[string]any { return counted(n) }

// ServiceMeta returns the description of an answer of the REST API. plugin is slurmctld or slurmdbd.
func ServiceMeta(parser, plugin, source, user string) map[string]any {
	values := versionKeys()
	values["plugin.type"], values["plugin.name"] = "openapi/"+plugin, "Slurm OpenAPI "+plugin
	values["plugin.data_parser"], values["client.source"], values["client.user"] = "data_parser/"+parser, source, user
	return jsonObject(jsonMeta, "", values)
}

// Ping returns the state of a controller.
func Ping(host string, up bool, microseconds int64) map[string]any {
	word := map[bool]string{true: "UP", false: "DOWN"}[up]
	return jsonObject(jsonPing, "", map[string]any{"hostname": host, "pinged": word, "responding": up,
		"latency": microseconds, "mode": "primary", "primary": true})
}

// Statistics returns what the statistics of a controller tell about jobs. counts has the numbers of jobs by state.
func Statistics(counts map[string]int, unix int64) map[string]any {
	failed := 0
	for _, state := range []string{"FAILED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "PREEMPTED", "DEADLINE",
		"SPECIAL_EXIT"} {
		failed += counts[state]
	}
	return jsonObject(jsonDiag, "", map[string]any{
		"req_time": counted(unix), "job_states_ts": counted(unix), "jobs_pending": counts["PENDING"],
		"jobs_running": counts["RUNNING"], "jobs_completed": counts["COMPLETED"], "jobs_canceled": counts["CANCELLED"],
		"jobs_failed": failed, "schedule_queue_length": counts["PENDING"],
	})
}

// Killed returns the result of a cancel for one job. code is 0 if there was no error.
func Killed(step string, job int64, code int, word, message string) map[string]any {
	values := map[string]any{"step_id": step, "job_id": counted(job), "error.code": code, "error.message": message}
	if code != 0 {
		values["error.string"] = word
	}
	return jsonObject(jsonKilled, "", values)
}
