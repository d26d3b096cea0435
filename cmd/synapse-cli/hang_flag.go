package main

import (
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file has the flags for restarts in place, checkpoints and hangs.

func (s *specFlags) addSaves(f *pflag.FlagSet) {
	f.BoolVar(&s.inPlace, "in-place", false, "restart after a failure on the nodes that the job has, without waiting in "+
		"the queue; requires --restarts")
	f.Int32Var(&s.spares, "spares", 0, "number of further nodes that the job holds to replace lost ones; requires "+
		"--in-place")
	f.StringVar(&s.checkpoint, "checkpoint", "",
		"checkpoint interval, such as 10m; with keys, also a request to save, such as every=10m,signal=USR1,grace=5m")
	f.StringVar(&s.hang, "hang", "",
		"action if no rank makes progress: report, restart or none; with keys, such as then=restart,floor=30s,dump=USR1")
}

// saves parses the flags into the job.
func (s *specFlags) saves(spec *messages.JobSpec) error {
	if s.checkpoint != "" {
		if problem := jobfile.ParseCheckpoint(s.checkpoint, spec); problem != nil {
			return flagProblem("checkpoint", problem)
		}
	}
	if s.hang == "" {
		return nil
	}
	var problem *jobfile.Problem
	if spec.Hang, problem = jobfile.ParseHang(s.hang); problem != nil {
		return flagProblem("hang", problem)
	}
	return nil
}
