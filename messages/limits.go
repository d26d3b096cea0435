package messages

import "github.com/yi-json/synapse/messages/plain"

// This file has every limit on the content of messages. Each limit bounds memory or disk usage. It is not an estimate
// of useful values.

const (
	// MaxMessageBytes limits the size of one message.
	MaxMessageBytes = 4 << 20
	// MaxFrameBytes limits one write to a link: a message with its sender and receiver.
	MaxFrameBytes = MaxMessageBytes + 64<<10
	// MaxQueuedMessages and MaxQueuedBytes limit the messages that wait to be sent to one peer.
	MaxQueuedMessages = 4096
	MaxQueuedBytes    = 2 * MaxFrameBytes
	// LetterBytes is the size of a waiting message without its text and names.
	LetterBytes = 32
	// maxSpecBytes limits the spec of a job. Every change of the job writes the spec to disk.
	maxSpecBytes = 1 << 20

	// MaxGangTasks limits the number of tasks of a gang.
	MaxGangTasks = 65_536
	// maxRosterBytes limits the packed list of a gang's nodes. It allows one node per task and no repeated text.
	maxRosterBytes = MaxGangTasks * (MaxIDBytes + 2*MaxValueBytes + 32)
	// MaxEnvBytes limits the environment of a job: the bytes of all names and values.
	MaxEnvBytes = plain.MaxEnvBytes
	// MaxCommandBytes limits the bytes of a command with its arguments.
	MaxCommandBytes = 128 << 10
	// MaxCommandArgs limits the number of a command's arguments.
	MaxCommandArgs = 4_096
	// MaxScriptBytes limits the script of a job.
	MaxScriptBytes = 256 << 10
	// MaxMounts limits the number of a job's mounts.
	MaxMounts = 4_096
	// MaxLabels limits the number of labels of one object, and of one selector.
	MaxLabels = 64
	// MaxNamedMachines limits the list of a job's nodes, and the list of its excluded nodes.
	MaxNamedMachines = 1_024
	// MaxPriority limits the absolute value of a priority.
	MaxPriority = plain.MaxPriority
	// MaxRestarts limits restart.limit.
	MaxRestarts = 1_000_000
	// MaxDurationMs limits every duration that a user may set: ten years.
	MaxDurationMs = 10 * 366 * 24 * 3600 * 1000
	// MinStopWhenLostMs is two heartbeats. A shorter time would stop tasks although their leader is healthy.
	MinStopWhenLostMs = 10_000

	// MaxMilliCPU, MaxMemoryBytes and MaxMilliGPU limit the resources of one node, and therefore of one task.
	MaxMilliCPU    = 1 << 30
	MaxMemoryBytes = 1 << 50
	MaxMilliGPU    = 1_000_000
	// maxAllocations limits the allocations in a ledger, including ended ones that wait for Forget.
	maxAllocations = 65_536
	// maxUIDs limits the uids in use on a node: those of its allocations and those of files that tasks left behind.
	maxUIDs = 16_384
	// MaxCells limits the groups of similar jobs whose run times a leader stores.
	MaxCells = 20_000
	// MaxUses limits the queues, and owners in queues, whose past usage a leader stores.
	MaxUses = 20_000
	// maxPlaceLevels limits the levels of the topology tree.
	maxPlaceLevels = 16

	// MaxNameBytes limits a name that users choose: [a-z0-9-]{1,63}.
	MaxNameBytes = plain.MaxNameBytes
	// MaxAccounts limits the accounts that a node lists, and the owners that it maps to accounts.
	MaxAccounts = 1024

	// MaxIDBytes limits a generated ID, such as the ID of a job, node or request.
	MaxIDBytes = plain.MaxIDBytes
	// maxKeyBytes and MaxValueBytes limit the key and the value of a label.
	maxKeyBytes   = 128
	MaxValueBytes = plain.MaxValueBytes
	// maxTextBytes limits texts for people, such as reasons and details.
	maxTextBytes = 4_096
	// MaxEvidenceLines limits the lines of output in the evidence of a failure, and MaxEvidenceBytes each of its texts.
	MaxEvidenceLines = 20
	MaxEvidenceBytes = 512
	// maxXids limits the driver errors in the evidence of a failure.
	maxXids = 16
	// MaxPathBytes limits a path, as Linux does.
	MaxPathBytes = 4_096
	// MaxLogTimes limits the times of a page of output.
	MaxLogTimes = 8_192
	// MaxPageEntries limits the page size that a list request may ask for.
	MaxPageEntries = 1_000
	// maxFilterValues limits the number of alternatives in a filter.
	maxFilterValues = 64
)
