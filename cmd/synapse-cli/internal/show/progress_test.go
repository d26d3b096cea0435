package show

import "github.com/yi-json/synapse/messages"

// training returns a job that reports its progress, one without a total, one with unreadable reports, and one that
// waits.
func training() []*messages.JobStatus {
	jobs := narrowJobs("research")
	waits, slow := jobs[0], jobs[1]
	slow.Progress = &messages.JobProgress{
		Step: 2250, Total: 5000, Percent: 45, MilliRate: 763, LeftMs: 3_604_000, MostStep: 2261, ChangedMsAgo: 3000, Ranks: 8,
		Metrics: []*messages.Metric{{Name: "loss", Value: "2.1"}, {Name: "lr", Value: "3e-4"}}, Garbage: 2,
	}
	endless, garbage := narrowJobs("research")[1], narrowJobs("research")[1]
	endless.Progress = &messages.JobProgress{Step: 17, MostStep: 17, Ranks: 1, ChangedMsAgo: 200_000}
	garbage.Progress = &messages.JobProgress{Garbage: 5}
	return []*messages.JobStatus{slow, endless, garbage, waits}
}
