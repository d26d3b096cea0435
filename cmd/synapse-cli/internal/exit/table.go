package exit

// This file describes the exit codes. `synapse-cli help exit-codes` prints these texts, and tests write the
// reference pages from them.

// CodeText describes an exit code.
type CodeText struct{ Code, Meaning string }

// Texts returns the descriptions of all exit codes.
func Texts() []CodeText {
	return []CodeText{
		{"0", "Success."},
		{"1", "Failure, or a job that was cancelled."},
		{"2", "Usage error: the command line, a file or a value is invalid."},
		{"3", "Not found: the job, node, queue or file does not exist."},
		{"4", "Conflict: the state does not allow the change, such as a requeue of a finished job."},
		{"5", "Not allowed: authentication failed, the role lacks the right, or the queue does not allow this job."},
		{"6", "Timed out: the command reached `--timeout`, or the job reached its time limit."},
		{"7", "Infeasible: the job can never run on this cluster."},
		{"8", "Unavailable: no scheduler answered within `--retry`, the connection was lost, or a limit on " +
			"requests or of the owner is reached."},
		{"125", "The node could not start the exec session. The code 126 means that the command is not executable, " +
			"and 127 that it was not found."},
		{"128 + N", "Signal N ended the job or the session. Code 137 has several causes: out of memory, disk limit " +
			"exceeded, or still running after the grace period."},
		{"129", "The connection of `run` was lost. The command received SIGHUP, and the job ended."},
		{"130", "The command was interrupted with Ctrl-C."},
	}
}

// JobCodes lists the commands that return the code of a job.
const JobCodes = "`wait`, `submit --wait`, `submit --attach`, `attach` and `run` exit with the code of the job. " +
	"For several jobs, they use the first named job that did not succeed. " +
	"`exec` exits with the code of its command."
