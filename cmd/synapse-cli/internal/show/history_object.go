package show

import "github.com/yi-json/synapse/messages"

// This file defines the objects of finished jobs for -o json. Within synapse/v1, fields are only added, never
// renamed or retyped.

type pastObj struct {
	ID              string            `json:"id"`
	Name            string            `json:"name"`
	Labels          map[string]string `json:"labels,omitempty"`
	Owner           string            `json:"owner"`
	Queue           string            `json:"queue"`
	Priority        int32             `json:"priority"`
	State           string            `json:"state"`
	ExitCode        int               `json:"exitCode"`
	Reason          string            `json:"reason,omitempty"`
	Submitted       string            `json:"submittedAt,omitempty"`
	Started         string            `json:"startedAt,omitempty"`
	Finished        string            `json:"finishedAt,omitempty"`
	Cancelled       *deedObj          `json:"cancelled,omitempty"`
	Runs            int32             `json:"attemptCount"`
	Failures        int32             `json:"failures"`
	InfraRestarts   int32             `json:"infraRestarts"`
	WaitSeconds     *float64          `json:"waitSeconds,omitempty"` // nil: never started
	RunSeconds      float64           `json:"runtimeSeconds"`
	GPUSeconds      float64           `json:"gpuSeconds"`
	PeakMemoryBytes int64             `json:"peakMemoryBytes"`
	Attempts        []pastAttemptObj  `json:"attempts"`
	SubmittedUnixMs int64             `json:"submittedUnixMs"`            // in milliseconds
	TimeLimit       float64           `json:"timeLimitSeconds,omitempty"` // of one attempt
	Gang            *pastGangObj      `json:"gang,omitempty"`             // nil: not sent by older schedulers
}

// pastGangObj holds the requested gang: identical tasks, or a total that was split.
type pastGangObj struct {
	Tasks       int32   `json:"tasks,omitempty"`
	GPUsPerTask float64 `json:"gpusPerTask,omitempty"`
	GPUs        float64 `json:"gpus,omitempty"` // of a total
	Split       string  `json:"split,omitempty"`
}

type pastAttemptObj struct {
	Attempt         string        `json:"token"`
	Run             int32         `json:"number"`
	Committed       string        `json:"committedAt,omitempty"`
	Started         string        `json:"startedAt,omitempty"`
	Ended           string        `json:"endedAt,omitempty"`
	Gone            string        `json:"goneAt,omitempty"`
	Cause           string        `json:"cause,omitempty"`
	Detail          string        `json:"detail,omitempty"`
	FailedRank      *int32        `json:"failedRank,omitempty"`
	Machine         string        `json:"failedNode,omitempty"`
	ExitCode        int32         `json:"exitCode"`
	Signal          int32         `json:"signal,omitempty"`
	Tasks           int32         `json:"tasks"`
	Machines        []string      `json:"nodes"`
	GPUs            float64       `json:"gpus"`
	GPUSeconds      float64       `json:"gpuSeconds"`
	PeakMemoryBytes int64         `json:"peakMemoryBytes"`
	Ranks           []pastRankObj `json:"ranks,omitempty"`
	Verdict         *verdictObj   `json:"verdict,omitempty"`       // the cause of the failure, without the output
	Told            *toldObj      `json:"firstEstimate,omitempty"` // first estimate while the job waited for this attempt
	InPlace         *inPlaceObj   `json:"restartedInPlace,omitempty"`
	savedObj
}

type pastRankObj struct {
	rankObj
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
}

func pastObject(j past) pastObj {
	o := pastObj{
		ID: j.GetId(), Name: j.Called(), Owner: j.GetOwner(), Queue: j.GetQueue(), Priority: j.GetPriority(),
		State: j.state(), ExitCode: j.exit(), Reason: j.GetReason(),
		Submitted: stamp(j.GetSubmittedUnixMs()), Started: stamp(j.GetStartedUnixMs()),
		Finished: stamp(j.GetFinishedUnixMs()), Cancelled: deedObject(j.GetCancel()),
		Runs: j.GetRuns(), Failures: j.GetFailures(), InfraRestarts: j.GetInfraRestarts(),
		RunSeconds: seconds(j.ranMs()), GPUSeconds: gpuSeconds(j.GetMilliGpuMs()), PeakMemoryBytes: peakBytes(j.PastJob),
		Attempts:        []pastAttemptObj{},
		SubmittedUnixMs: j.GetSubmittedUnixMs(), TimeLimit: seconds(j.GetTimeLimitMs()), Gang: pastGangObject(j.PastJob),
	}
	if ms, started := j.waitMs(); started {
		wait := seconds(ms)
		o.WaitSeconds = &wait
	}
	for _, l := range j.GetLabels() {
		if o.Labels == nil {
			o.Labels = map[string]string{}
		}
		o.Labels[l.GetKey()] = l.GetValue()
	}
	for _, a := range j.GetAttempts() {
		o.Attempts = append(o.Attempts, pastAttemptObject(a))
	}
	return o
}

func pastGangObject(j *messages.PastJob) *pastGangObj {
	g := j.GetGang()
	switch {
	case g == nil:
		return nil
	case g.GetTotal() != nil:
		split := "whole" // the default
		if g.GetSplit() == messages.Split_SPLIT_ANY {
			split = "any"
		}
		return &pastGangObj{GPUs: float64(g.GetTotal().GetMilliGpu()) / 1000, Split: split}
	}
	return &pastGangObj{Tasks: g.GetReplicasMin(), GPUsPerTask: float64(j.GetEach().GetMilliGpu()) / 1000}
}

func pastAttemptObject(a *messages.PastAttempt) pastAttemptObj {
	o := pastAttemptObj{
		Attempt: messages.FromToken(a.GetToken()).String(), Run: a.GetRun(),
		Committed: stamp(a.GetCommittedUnixMs()), Started: stamp(a.GetStartedUnixMs()), Ended: stamp(a.GetEndedUnixMs()),
		Gone:  stamp(a.GetGoneUnixMs()),
		Cause: causeWord(a.GetCause()), Detail: a.GetDetail(), Machine: a.GetFailedNode(),
		ExitCode: a.GetExitCode(), Signal: a.GetSignal(),
		Tasks: a.GetMembers(), Machines: a.GetNodes(), GPUs: float64(a.GetMilliGpu()) / 1000,
		GPUSeconds: gpuSeconds(a.GetMilliGpuMs()), PeakMemoryBytes: a.GetPeakMemoryBytes(),
		Told: toldObject(a.GetTold(), a.GetCommittedUnixMs()), Verdict: verdictObject(a.GetVerdict()),
		InPlace:  inPlaceObject(a),
		savedObj: savedObject(a.GetSaved(), a.GetMissed(), a.GetCause(), a.GetRanMs()),
	}
	if rank := a.GetFailedRank(); rank >= 0 {
		o.FailedRank = &rank
	}
	for _, r := range attemptObject(&messages.AttemptRecord{Places: a.GetPlaces()}).Ranks {
		o.Ranks = append(o.Ranks, pastRankObj{rankObj: r})
	}
	for i, p := range a.GetPlaces() {
		o.Ranks[i].PeakMemoryBytes = p.GetExit().GetPeakMemoryBytes()
	}
	return o
}
