package messages

// This file owns whether a task of an attempt may have run, for jobs that allow no second run.

// MayHaveRun reports whether a task of an attempt may have begun. It is false only if every member is known not to
// have: what a node does not say may be anything.
func (x *AttemptRecord) MayHaveRun() bool {
	if x.GetStartedUnixMs() > 0 {
		return true
	}
	for _, p := range x.GetPlaces() {
		switch p.GetExit().GetKind() {
		case ExitKind_EXIT_KIND_NEVER_STARTED, ExitKind_EXIT_KIND_PREPARE_FAILED, ExitKind_EXIT_KIND_LAUNCH_FAILED:
		default:
			return true
		}
	}
	return false
}
