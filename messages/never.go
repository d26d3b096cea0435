package messages

// This file decides whether an attempt may have run, for jobs with restart.never.

// MayHaveRun reports whether a task of the attempt may have started. It returns false only if every rank is confirmed
// as not started. An unconfirmed rank counts as started.
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
