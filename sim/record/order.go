package record

import (
	"time"

	"github.com/yi-json/synapse/policy/share"
)

// This file defines the order of a replay, its progress messages and its results. The meaning of the results is fixed,
// so that they can be compared with results of others.

// Synapse is the policy name of a cluster with default settings, whose planner looks ahead.
const Synapse = "synapse"

// InOrder is the policy name of a cluster with the order fifo.
const InOrder = "synapse-fifo"

// Policies returns the policies that can be replayed: Synapse's own, and those for comparison.
func Policies() []string { return append([]string{Synapse, InOrder}, Rivals()...) }

// IsOwn reports whether a policy is one of Synapse. Such a policy knows no durations, and places gangs as a cluster
// does.
func IsOwn(policy string) bool { return policy == Synapse || policy == InOrder }

// Rivals returns the policies for comparison, which no cluster runs.
func Rivals() []string { return []string{"fifo", "greedy", "easy", "sjf", "sjfskip", "ssf"} }

// Order describes a requested replay. Its JSON form is the input of the program that runs the replay.
type Order struct {
	Jobs    []Job // in order of arrival
	Cluster Cluster
	Policy  string
	Without string // a part of Synapse's policy to disable (policy.Parts); empty: none
	Ref     bool   // place gangs of a compared policy as published simulators do
	Oracle  bool   // a compared policy knows the true run time of a job instead of its limit
	Seed    uint64
	Shake   float64 // maximum relative jitter of durations, in both directions
	Latency time.Duration
	Until   time.Duration // end of the replay since the first job; 0: until all jobs have finished
	Check   bool          // run the simulator's checkers
	// Queues are the queues for Synapse's own policies. nil means no queues. A job of an unknown queue is in the
	// default queue.
	Queues *share.Queues `json:",omitempty"`
	// Preempt enables preemption by the rules of the queues for Synapse's own policies. Without queues, short jobs
	// preempt long ones. Checkpoint is the interval at which jobs save their work. 0 means never.
	Preempt    bool          `json:",omitempty"`
	Checkpoint time.Duration `json:",omitempty"`
}

// ShortFirst returns a cluster with one queue in which short jobs preempt long ones.
func ShortFirst() *share.Queues {
	yes := true
	return &share.Queues{Default: "default", Queues: []share.QueueSpec{
		{Name: "default", Preemption: share.Preemption{Shortest: &yes}},
	}}
}

// Word is one line of that program's output: its progress, or the result.
type Word struct {
	Ended   int      `json:"ended,omitempty"`
	Result  *Result  `json:"result,omitempty"`
	Picture *Picture `json:"picture,omitempty"` // picture of the result
	Err     string   `json:"err,omitempty"`
}

// Waits holds how long jobs waited and took, in seconds.
type Waits struct {
	Jobs       int     `json:"jobs"`
	Unfinished int     `json:"unfinished"`
	WaitAvg    float64 `json:"wait_avg"`
	WaitP95    float64 `json:"wait_p95"`
	WaitP99    float64 `json:"wait_p99"`
	WaitMax    float64 `json:"wait_max"`
	JCTAvg     float64 `json:"jct_avg"`
	// The slowdown of a job is the time from submit to end, divided by its run time, but by at least ten minutes.
	SlowdownAvg float64 `json:"slowdown_avg"`
	SlowdownP95 float64 `json:"slowdown_p95"`
}

// MultiNode is the name of the class of all gangs that are larger than one node.
const MultiNode = "multi-node"

// Class holds the results of the jobs of one size. The class MultiNode contains jobs of other classes.
type Class struct {
	GPUs string `json:"gpus"`
	Waits
}

// Queue holds the results of the jobs of one queue.
type Queue struct {
	Queue string `json:"queue"`
	Waits
}

// IdleParts holds shares of the GPUs that are free while a waiting job fits on them, by the reason for which they stay
// free.
type IdleParts struct {
	Headroom float64 `json:"short_job_share"` // reserved for short jobs that are yet to arrive
	Locality float64 `json:"topology_wait"`   // the job waits for closer nodes
	KeptRoom float64 `json:"reserved"`        // reserved for the start of another job
	Quota    float64 `json:"quota"`           // the quota of other queues
	Other    float64 `json:"other"`           // no reason that the planner names
}

// Result holds the measurements of a run. An unknown measurement is nil.
type Result struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	Waits
	TooBig       int      `json:"too_big"`        // gangs that do not fit on the idle cluster
	TooBigLines  []int    `json:"too_big_lines"`  // the first lines of such gangs in the record
	WaitMultiAvg *float64 `json:"wait_multi_avg"` // of gangs larger than one node
	Util         float64  `json:"util"`           // share of the GPUs in use, between the first and the last submit
	// share of the gangs larger than one node that run in the fewest possible racks
	Rack *float64 `json:"rack"`
	// share of the GPUs that are free while a waiting job of at most this size does not fit
	Frag float64 `json:"frag"`
	// share of the GPUs that are free while a waiting job fits on them
	IdleFit float64 `json:"idle_fit"`
	// IdleFitParts splits IdleFit by the planner's reasons. It is nil if the planner gives none.
	IdleFitParts *IdleParts `json:"idle_fit_parts"`

	// Preemptions counts preempted attempts. LostGPUH is the GPU-hours that jobs ran in addition to their work
	// because of that: work that was not saved, and the time to resume.
	Preemptions *float64 `json:"preemptions"`
	LostGPUH    *float64 `json:"lost_gpu_h"`

	// Slips counts the backfilled jobs that overran their estimates and delayed the job with the reserved nodes.
	// The errors are the seconds between a job's first start estimate and its start, in both directions. Told is
	// the share of the jobs with more than ten minutes of waiting that got an estimate. Of the jobs with a 90
	// percent estimate, cover is the share that started by the first such time.
	Slips           *float64 `json:"overruns"`
	PromiseErrorP50 *float64 `json:"start_error_p50"`
	PromiseErrorP95 *float64 `json:"start_error_p95"`
	PromiseTold     *float64 `json:"start_estimated"`
	PromiseCover    *float64 `json:"start_p90_coverage"`

	Classes []Class `json:"classes"`
	Queues  []Queue `json:"queues"`
	// Real holds how long the jobs waited in the real cluster. It is nil unless the record has this for all jobs.
	Real *Waits `json:"real"`

	PassMeanUs float64 `json:"pass_mean_us"`
	TraceHash  string  `json:"trace_hash"`
	WallS      float64 `json:"wall_s"`

	// Picture holds the data of a report's charts. It is separate from the results.
	Picture *Picture `json:"-"`
}
