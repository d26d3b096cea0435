package messages

// This file defines how a leader knows which features an agent understands. Messages only gain fields, and an agent
// ignores unknown fields. If that would be wrong, the leader must send the older form. The Hello of an agent has the
// highest number of this list that the agent understands.

const (
	// VocabularyRoster adds a Start with a roster instead of peers, in several parts if necessary.
	VocabularyRoster = 1

	// VocabularyScript adds jobs with a script, which the node requests by its digest. There is no older form, so
	// such a job is never placed on an older agent.
	VocabularyScript = 2

	// VocabularyNetwork adds the network of a job. An older agent would run the job in the node's network.
	VocabularyNetwork = 3

	// VocabularyStartBy adds the cause START_BY of a Stop. An older agent refuses that cause and gets the cause
	// EXPIRED instead.
	VocabularyStartBy = 4

	// VocabularyWarn adds the warning before an end. An older agent would stop the tasks without a warning.
	VocabularyWarn = 5

	// VocabularyArray adds the elements of arrays. An older agent would not pass the index to the tasks.
	VocabularyArray = 6

	// VocabularyCheckpoint adds requests to save a checkpoint. An older agent would stop the tasks without a request.
	VocabularyCheckpoint = 7

	// VocabularyInPlace adds allocations that are kept after the last exit, for a restart in place. An older agent
	// frees them, so the job waits in the queue instead.
	VocabularyInPlace = 8

	// Vocabulary is the highest number.
	Vocabulary = VocabularyInPlace
)

// VocabularyOf returns the vocabulary that an agent needs to run a job. An older agent would ignore a part of the job.
func VocabularyOf(spec *JobSpec) int32 {
	switch {
	case spec.GetCheckpoint() != nil:
		return VocabularyCheckpoint
	case spec.GetElement() != nil:
		return VocabularyArray
	case spec.GetWarn() != nil:
		return VocabularyWarn
	case len(NetworkLabels(spec.GetNetwork())) > 0:
		return VocabularyNetwork
	case spec.GetScript() != nil:
		return VocabularyScript
	}
	return 0
}
