package record

// This file owns what a run looked like over its time: as many points for 100,000 jobs as for a hundred.

// Picture holds the data of a report's charts.
type Picture struct {
	Step     float64  `json:"step"`    // seconds that each of Steps is long
	Steps    []Step   `json:"steps"`   // from the first job's submit on
	Submits  float64  `json:"submits"` // seconds until the last job's submit
	Sizes    []Spread `json:"sizes"`   // waits by the size of jobs
	Queues   []Spread `json:"queues"`  // and by their queue
	Promises []Told   `json:"promises"`
}

// Step is means over a short time.
type Step struct {
	Used    float64 `json:"used"`    // share of the GPUs
	Waiting float64 `json:"waiting"` // jobs
	Gangs   float64 `json:"gangs"`   // that run and are larger than a machine
	Near    float64 `json:"near"`    // of these, in as few racks as can be
}

// Spread is how long the jobs of one kind waited, in seconds: the mean, the percentiles and the longest.
type Spread struct {
	Name string  `json:"name"`
	Jobs int     `json:"jobs"` // that are over
	Avg  float64 `json:"avg"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	Max  float64 `json:"max"`
}

// Told is a job that was told when it would start, in seconds since the first job's submit.
type Told struct {
	Told    float64 `json:"told"`    // when it was told for the first time
	At      float64 `json:"at"`      // the time that it was told
	Started float64 `json:"started"` // the time at which it did
}

// MaxSteps is how many steps a picture has at most, MaxPromises how many promises.
const (
	MaxSteps    = 480
	MaxPromises = 2000
)
