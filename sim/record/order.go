package record

import (
	"time"

	"github.com/yi-json/synapse/policy/share"
)

// This file owns what is ordered, what is told meanwhile, and what comes of it. The
// meaning of the figures is fixed, so that they compare with others'.

// Synapse is the name of the policy of a cluster on which nothing is set: it looks ahead.
const Synapse = "synapse"

// InOrder is the name of the policy of one with the order fifo.
const InOrder = "synapse-fifo"

// Policies returns the policies that can be replayed: Synapse's own, and those for comparison.
func Policies() []string { return append([]string{Synapse, InOrder}, Rivals()...) }

// IsOwn reports whether a policy is Synapse's own: it knows no durations, and places as a cluster does.
func IsOwn(policy string) bool { return policy == Synapse || policy == InOrder }

// Rivals are the policies that no cluster has.
func Rivals() []string { return []string{"fifo", "greedy", "easy", "sjf", "sjfskip", "ssf"} }

// Order is a replay that is wanted. As JSON it is what the program that runs it is given.
type Order struct {
	Jobs    []Job // the first to come first
	Cluster Cluster
	Policy  string
	Without string // a part that Synapse's own policy is to lack (policy.Parts); empty: none
	Ref     bool   // gangs of a policy that is compared with go where published simulators put them
	Oracle  bool   // such a policy knows how long a job runs, instead of how long it may
	Seed    uint64
	Shake   float64 // durations differ by up to so much of themselves, either way
	Latency time.Duration
	Until   time.Duration // since the first job; 0: until all are over
	Check   bool          // with the simulator's checkers
	// Queues are those that Synapse's own policies go by; nil: they go by none. A job of a queue that is not among them is
	// in the default one.
	Queues *share.Queues `json:",omitempty"`
	// Preempt has Synapse's own policies stop jobs for others, as the queues say; where there are none, long ones for
	// short ones. Checkpoint is how often jobs save their work; 0: never.
	Preempt    bool          `json:",omitempty"`
	Checkpoint time.Duration `json:",omitempty"`
}

// ShortFirst are the queues of a cluster that has one, in which long jobs give way to short ones.
func ShortFirst() *share.Queues {
	yes := true
	return &share.Queues{Default: "default", Queues: []share.QueueSpec{
		{Name: "default", Preemption: share.Preemption{Shortest: &yes}},
	}}
}

// Word is one line of what that program answers: how far it is, or the result.
type Word struct {
	Ended   int      `json:"ended,omitempty"`
	Result  *Result  `json:"result,omitempty"`
	Picture *Picture `json:"picture,omitempty"` // of the result
	Err     string   `json:"err,omitempty"`
}

// Waits are how long jobs waited and took. Times are in seconds.
type Waits struct {
	Jobs       int     `json:"jobs"`
	Unfinished int     `json:"unfinished"`
	WaitAvg    float64 `json:"wait_avg"`
	WaitP95    float64 `json:"wait_p95"`
	WaitP99    float64 `json:"wait_p99"`
	WaitMax    float64 `json:"wait_max"`
	JCTAvg     float64 `json:"jct_avg"`
}

// Class is the figures of the jobs of one size; Queue, those of one queue.
type Class struct {
	GPUs string `json:"gpus"`
	Waits
}

// Queue is the figures of the jobs of one queue.
type Queue struct {
	Queue string `json:"queue"`
	Waits
}

// IdleParts are shares of the GPUs, free while a waiting job has a place on them, by what they were kept for.
type IdleParts struct {
	Headroom float64 `json:"short_job_share"` // short work that is yet to come
	Locality float64 `json:"topology_wait"`   // the job has a place, and waits for one closer together
	KeptRoom float64 `json:"reserved"`        // who is promised it
	Quota    float64 `json:"quota"`           // the queues that it is assured to
	Other    float64 `json:"other"`           // nothing that the planner names
}

// Result holds the measurements of a run. An unknown measurement is nil.
type Result struct {
	Policy string `json:"policy"`
	Seed   uint64 `json:"seed"`
	Waits
	TooBig       int      `json:"too_big"`        // gangs that the cluster could not hold if it were idle
	TooBigLines  []int    `json:"too_big_lines"`  // of the record, the first ones
	WaitMultiAvg *float64 `json:"wait_multi_avg"` // of gangs that are larger than a machine
	Util         float64  `json:"util"`           // of the GPUs, between the first and the last submit
	Rack         *float64 `json:"rack"`           // share of the gangs larger than a machine in as few racks as can be
	Frag         float64  `json:"frag"`           // share of the GPUs free while a waiting job is no larger and has no place
	IdleFit      float64  `json:"idle_fit"`       // share of the GPUs free while a waiting job has a place on them
	// IdleFitParts are what IdleFit is the sum of, by what the planner says; nil where it does not say.
	IdleFitParts *IdleParts `json:"idle_fit_parts"`

	// Preemptions are how often jobs were stopped for others, and the GPU-hours how much they ran for beside their work by
	// that: what was not saved, and the time that it takes to go on.
	Preemptions *float64 `json:"preemptions"`
	LostGPUH    *float64 `json:"lost_gpu_h"`

	// Slips are how often what was lent on an estimate came back late, at the cost of whom it was kept for. The errors are
	// the seconds between the first time that a job was told and its start, either way. Told is the share of the jobs that
	// waited for more than ten minutes which were told a time; cover, of those that were told "by then in nine of ten",
	// the share that began by the first such time.
	Slips           *float64 `json:"overruns"`
	PromiseErrorP50 *float64 `json:"start_error_p50"`
	PromiseErrorP95 *float64 `json:"start_error_p95"`
	PromiseTold     *float64 `json:"start_estimated"`
	PromiseCover    *float64 `json:"start_p90_coverage"`

	Classes []Class `json:"classes"`
	Queues  []Queue `json:"queues"`
	// Real is how long the jobs waited where they really ran; nil where the record does not say of all.
	Real *Waits `json:"real"`

	PassMeanUs float64 `json:"pass_mean_us"`
	TraceHash  string  `json:"trace_hash"`
	WallS      float64 `json:"wall_s"`

	// Picture is what a report draws; it stands beside the figures and not among them.
	Picture *Picture `json:"-"`
}
