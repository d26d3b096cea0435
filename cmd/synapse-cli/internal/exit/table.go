package exit

// This file describes the exit codes. `synapse-cli help exit-codes` prints these texts, and tests write the
// reference pages from them.

// CodeText describes an exit code.
type CodeText struct{ Code, Meaning string }

// Texts returns the descriptions of all exit codes.
func Texts() []CodeText {
	return []CodeText{
		{"0", "Success."},
		{"1", "Failure; also a job that was cancelled."},
		{"2", "Usage error: the command line, a file or a value is invalid."},
		{"3", "Not found: the job, node, queue or file does not exist."},
		{"4", "Conflict: the state does not allow the change, such as a requeue of a finished job."},
		{"5", "Not allowed: authentication failed, the role lacks the right, or the queue has a limit per owner."},
		{"6", "Timed out: `--timeout` of the command, or the time limit of the job."},
		{"7", "Infeasible: the job can never run on this cluster."},
		{"8", "Unavailable: no scheduler answered within `--retry`, the connection was lost, or a rate limit or " +
			"owner limit is reached."},
		{"125", "Exec session not run: the node could not start it. The code 126 means that the command is not " +
			"executable, and " +
			"127 that it was not found."},
		{"128 + N", "Signal N ended the job or the session. The code 137 also means out of memory, disk limit, or " +
			"a grace " +
			"period that was exceeded."},
		{"129", "Connection of `run` lost: the command got a hangup, and the job ended."},
		{"130", "Ctrl-C."},
	}
}

// JobCodes lists the commands that return the code of a job.
const JobCodes = "`wait`, `submit --wait`, `submit --attach`, `attach` and `run` exit with the code of the job. " +
	"For several jobs, they use the first named job that did not succeed. " +
	"`exec` exits with the code of its command."
