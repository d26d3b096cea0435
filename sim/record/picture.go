package record

// This file defines the course of a run over time, with the same number of points for 100,000 jobs as for a hundred.

// Picture holds the data of a report's charts.
type Picture struct {
	Step     float64  `json:"step"`    // length of each step in seconds
	Steps    []Step   `json:"steps"`   // from the first job's submit
	Submits  float64  `json:"submits"` // seconds until the last job's submit
	Sizes    []Spread `json:"sizes"`   // waiting times by the size of jobs
	Queues   []Spread `json:"queues"`  // waiting times by queue
	Promises []Told   `json:"promises"`
}

// Step holds means over a short time.
type Step struct {
	Used    float64 `json:"used"`    // share of the GPUs
	Waiting float64 `json:"waiting"` // number of jobs
	Gangs   float64 `json:"gangs"`   // running gangs that are larger than one node
	Near    float64 `json:"near"`    // of these, in the fewest possible racks
}

// Spread describes how long the jobs of one kind waited, in seconds: the mean, the percentiles and the maximum.
type Spread struct {
	Name string  `json:"name"`
	Jobs int     `json:"jobs"` // finished jobs
	Avg  float64 `json:"avg"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Told describes a job with a start estimate, in seconds since the first job's submit.
type Told struct {
	Told    float64 `json:"told"`    // when the first estimate was made
	At      float64 `json:"at"`      // the estimated start
	Started float64 `json:"started"` // the actual start
}

// MaxSteps limits the steps of a picture, and MaxPromises the start estimates.
const (
	MaxSteps    = 480
	MaxPromises = 2000
)
