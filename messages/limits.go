package messages

// This file owns every limit on what may be said. A limit is not a guess at
// what is useful but a promise that nothing grows past it.

const (
	// MaxMessageBytes bounds one message on the wire.
	MaxMessageBytes = 4 << 20
	// MaxFrameBytes bounds what is written to a link at once: a message, and who says it to whom.
	MaxFrameBytes = MaxMessageBytes + 64<<10
	// MaxQueuedMessages and MaxQueuedBytes bound what waits to be written to one peer.
	MaxQueuedMessages = 4096
	MaxQueuedBytes    = 2 * MaxFrameBytes
	// LetterBytes is what a message that waits takes beside its text and its names.
	LetterBytes = 32
	// maxSpecBytes bounds one job's spec: its record goes to disk with every change.
	maxSpecBytes = 1 << 20

	// MaxGangTasks bounds the members of a gang.
	MaxGangTasks = 65_536
	// maxRosterBytes bounds the packed list of its machines: as many as there are tasks, and no two alike.
	maxRosterBytes = MaxGangTasks * (MaxIDBytes + 2*MaxValueBytes + 32)
	// MaxEnvBytes bounds a job's environment, names and values together.
	MaxEnvBytes = 64 << 10
	// MaxCommandBytes bounds a command with all its arguments.
	MaxCommandBytes = 128 << 10
	// MaxCommandArgs bounds their number.
	MaxCommandArgs = 4_096
	// MaxScriptBytes bounds a script that comes with a job.
	MaxScriptBytes = 256 << 10
	// MaxMounts bounds a job's mounts.
	MaxMounts = 4_096
	// MaxLabels bounds the labels of one thing, and what one selector asks for.
	MaxLabels = 64
	// MaxNamedMachines bounds the machines that a job names, and those that it leaves out.
	MaxNamedMachines = 1_024
	// MaxPriority bounds a job's priority both ways.
	MaxPriority = 1_000_000
	// MaxRestarts bounds restart.limit.
	MaxRestarts = 1_000_000
	// MaxDurationMs bounds every span of time a user may name: ten years.
	MaxDurationMs = 10 * 366 * 24 * 3600 * 1000
	// MinStopWhenLostMs is two heartbeats: less would stop tasks whose leader is well.
	MinStopWhenLostMs = 10_000

	// MaxMilliCPU, MaxMemoryBytes and MaxMilliGPU bound one machine, and so one task.
	MaxMilliCPU    = 1 << 30
	MaxMemoryBytes = 1 << 50
	MaxMilliGPU    = 1_000_000
	// maxSlices bounds what a machine's books hold, what has ended and waits for Forget among it.
	maxSlices = 65_536
	// maxUIDs bounds the uids under which anything lies on a machine: its slices' and those of what it keeps.
	maxUIDs = 16_384
	// MaxCells bounds the kinds of jobs of which a leader keeps how long they run.
	MaxCells = 20_000
	// MaxUses bounds the queues, and owners in queues, of which a leader keeps what they used.
	MaxUses = 20_000
	// maxPlaceLevels bounds the levels of the fabric.
	maxPlaceLevels = 16

	// MaxNameBytes bounds a name that users give: [a-z0-9-]{1,63}.
	MaxNameBytes = 63
	// MaxAccounts bounds the accounts that a node lists, and the owners that it maps to accounts.
	MaxAccounts = 1024

	// MaxIDBytes bounds an id that is made: of a job, a node, a machine, a request.
	MaxIDBytes = 128
	// maxKeyBytes and MaxValueBytes bound a label.
	maxKeyBytes   = 128
	MaxValueBytes = 253
	// maxTextBytes bounds what people write to people: reasons, details.
	maxTextBytes = 4_096
	// MaxPathBytes bounds a path, as Linux does.
	MaxPathBytes = 4_096
	// MaxPageEntries bounds what a list may ask for at once.
	MaxPageEntries = 1_000
	// maxFilterValues bounds a filter's alternatives.
	maxFilterValues = 64
)
