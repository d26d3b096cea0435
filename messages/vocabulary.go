package messages

// This file owns how a leader learns what an agent understands. Fields are only
// ever added, and an agent leaves out those that it does not know; where it would
// then do the wrong thing, the leader has to say it in the earlier way. An agent's
// Hello carries the newest number of this list that it understands.

const (
	// VocabularyRoster is a Start that carries a roster in place of the peers, in as many parts as it takes.
	VocabularyRoster = 1

	// VocabularyScript is a job that brings a script, which the machine asks for by its digest. To say it in the
	// earlier way is not possible: such a job goes to no agent that does not understand it.
	VocabularyScript = 2

	// VocabularyNetwork is a job's network: an agent that does not know the word would run such a job on that of its
	// machine.
	VocabularyNetwork = 3

	// VocabularyStartBy is a Stop of what was lent room and was not ready in time: an agent that does not know that cause
	// refuses it, and is told that the attempt expired.
	VocabularyStartBy = 4

	// VocabularyWarn is a job whose tasks are warned of their end: an agent that does not know the word would stop them
	// without one.
	VocabularyWarn = 5

	// VocabularyArray is a job of an array: an agent that does not know the word would not tell its tasks which one.
	VocabularyArray = 6

	// Vocabulary is the newest.
	Vocabulary = VocabularyArray
)

// VocabularyOf returns the version of the vocabulary that an agent needs to run a job. An older agent would ignore a
// part of the job.
func VocabularyOf(spec *JobSpec) int32 {
	switch {
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
