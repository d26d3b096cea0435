// Package leading exports the metrics of a cluster, which the leading scheduler knows. It reads the Mirror's
// census.
package leading

import (
	"context"
	"sync"
	"time"

	"github.com/yi-json/synapse/actors/mirror"
	"github.com/yi-json/synapse/goodput"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/messages/renamed"
	"github.com/yi-json/synapse/server/metrics"
	"github.com/yi-json/synapse/topology"
)

// This file defines the families, and converts a census into series. There are at most about 2,000 series, for any
// number of jobs, nodes and users.

const (
	greatest = 100 // largest owners and queues, which have their own series
	maxTypes = 20  // GPU types with their own series
	patience = 5 * time.Second
)

var (
	leads = metrics.New(metrics.Gauge, "synapse_leader",
		"1 if this scheduler leads, 0 if it stands by")
	epoch = metrics.New(metrics.Gauge, "synapse_epoch",
		"epoch of this leader; 0 if it never led")
	scraped = metrics.New(metrics.Gauge, "synapse_cluster_metrics_up",
		"1 if the metrics of the cluster could be counted")
	jobs = metrics.New(metrics.Gauge, "synapse_jobs",
		"jobs by phase; only the most recent finished jobs count", "phase")
	waiting = metrics.New(metrics.Gauge, "synapse_jobs_waiting",
		"waiting jobs by reason and age; each job counts in one age class",
		"reason", "age")
	oldest = metrics.New(metrics.Gauge, "synapse_jobs_oldest_seconds",
		"age of the oldest waiting job")
	gpus = metrics.New(metrics.Gauge, "synapse_gpus",
		"GPUs by type and state; each GPU has one state: used, free, "+
			"reserved, broken, or free on a node that is backed off, unschedulable or unreachable", "type", "state")
	promisedGPUs = metrics.New(metrics.Gauge, "synapse_gpus_planned",
		"GPUs of planned starts, including GPUs that other jobs still use", "guaranteed")
	promisedJobs = metrics.New(metrics.Gauge, "synapse_jobs_planned",
		"waiting jobs with a planned start", "guaranteed")
	scattered = metrics.New(metrics.Gauge, "synapse_gpus_fragmented",
		"free GPUs in partially used topology domains, by level", "level")
	largest = metrics.New(metrics.Gauge, "synapse_gpus_free_largest",
		"free GPUs in the topology domain with the most free GPUs, by level", "level")
	places = metrics.New(metrics.Gauge, "synapse_topology_domains",
		"topology domains by level", "level")
	machines = metrics.New(metrics.Gauge, "synapse_nodes",
		"nodes by phase", "phase")
	outages = metrics.New(metrics.Gauge, "synapse_nodes_unavailable",
		"nodes that take no new work, by reason", "reason")

	classNow = metrics.New(metrics.Gauge, "synapse_gpus_in_class",
		"GPUs by class of `synapse-cli efficiency`; each GPU has one class", "class")
	classSpent = metrics.New(metrics.Gauge, "synapse_efficiency_gpu_seconds",
		"GPU-seconds by class over the stored days; time of a gang moves from productive to lost if its work is "+
			"lost", "class")
	capacitySpent = metrics.New(metrics.Gauge, "synapse_efficiency_capacity_gpu_seconds",
		"GPU-seconds of all classes over the stored days")
	lostSpent = metrics.New(metrics.Gauge, "synapse_efficiency_lost_gpu_seconds",
		"GPU-seconds of the class lost, by the cause that ended the attempt", "cause")

	activeJobs = metrics.New(metrics.Gauge, "synapse_jobs_activity",
		"running jobs by activity; inactive jobs have been idle for 30 minutes, and the activity of a job is unknown if not "+
			"all of its GPUs are measured", "activity")
	activeGPUs = metrics.New(metrics.Gauge, "synapse_jobs_activity_gpus",
		"GPUs of the running jobs, by activity of the job", "activity")
	measuredGPUs = metrics.New(metrics.Gauge, "synapse_gpus_measured",
		"GPUs of running jobs whose activity is measured")
	busyGPUs = metrics.New(metrics.Gauge, "synapse_gpus_busy",
		"measured GPUs, each counted with its busy share of the last minute")
	slowJobs = metrics.New(metrics.Gauge, "synapse_jobs_with_slow_ranks",
		"running jobs with a rank that is slower than the other ranks of its gang")
	stalledJobs = metrics.New(metrics.Gauge, "synapse_jobs_stalled",
		"running jobs that hang")
	suspectedNodes = metrics.New(metrics.Gauge, "synapse_nodes_suspected",
		"nodes that are suspected to cause failures of jobs")

	ownerSpent = metrics.New(metrics.Counter, "synapse_owner_gpu_seconds_total", shareHelp+" owner", "owner")
	ownerHeld  = metrics.New(metrics.Gauge, "synapse_owner_gpus",
		"GPUs of the running jobs, by owner", "owner")
	ownerWaiting = metrics.New(metrics.Gauge, "synapse_owner_jobs_waiting",
		"waiting jobs, by owner", "owner")
	queueSpent = metrics.New(metrics.Counter, "synapse_queue_gpu_seconds_total", shareHelp+" queue", "queue")
	queueHeld  = metrics.New(metrics.Gauge, "synapse_queue_gpus",
		"GPUs of the running jobs, by queue; jobs of descendant queues do not count", "queue")
	queueWanted = metrics.New(metrics.Gauge, "synapse_queue_gpus_requested",
		"GPUs that waiting jobs request, by queue; jobs of descendant queues do not count", "queue")
	queueRunning = metrics.New(metrics.Gauge, "synapse_queue_jobs_running",
		"running jobs, by queue; jobs of descendant queues do not count", "queue")
	queueWaiting = metrics.New(metrics.Gauge, "synapse_queue_jobs_waiting",
		"waiting jobs, by queue; jobs of descendant queues do not count", "queue")
	quota = metrics.New(metrics.Gauge, "synapse_queue_quota_gpus",
		"GPU quota of a configured queue", "queue")
	limit = metrics.New(metrics.Gauge, "synapse_queue_limit_gpus",
		"GPU limit of a configured queue", "queue")
	weight = metrics.New(metrics.Gauge, "synapse_queue_weight",
		"weight of a configured queue", "queue")
)

const shareHelp = "GPU-seconds of attempts since this leader took over, from the allocation to the end, by"

// Source holds where the metrics come from.
type Source struct {
	Census func(context.Context) (*mirror.Census, error) // nil, nil: this process does not lead
	Epoch  func() uint64

	mu   sync.Mutex
	most map[*metrics.Family]float64 // highest value so far of each Rest series
}

// Families returns all families of this source.
func (*Source) Families() []*metrics.Family {
	return []*metrics.Family{
		leads, epoch, scraped, jobs, waiting, oldest, gpus, promisedGPUs, promisedJobs, scattered, largest, places, machines,
		outages, ownerSpent, ownerHeld, ownerWaiting, queueSpent, queueHeld, queueWanted, queueRunning, queueWaiting, quota,
		limit, weight, classNow, classSpent, capacitySpent, lostSpent, activeJobs, activeGPUs, measuredGPUs, busyGPUs,
		slowJobs, stalledJobs, suspectedNodes,
	}
}

// Write writes the series. If this process does not lead, it writes only that.
func (s *Source) Write(p metrics.Page) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := s.Census(ctx)
	p.Put(leads, truth(c != nil || err != nil))
	p.Put(epoch, float64(s.Epoch()))
	p.Put(scraped, truth(c != nil))
	if c == nil {
		return
	}
	for i, n := range c.Phases {
		p.Put(jobs, float64(n), messages.Phases[i])
	}
	for kind, ages := range c.Waiting {
		if messages.WaitCode(kind) == messages.WaitNone {
			continue
		}
		for i, n := range ages {
			p.Put(waiting, float64(n), messages.WaitCode(kind).String(), ageOf(i))
		}
	}
	p.Put(oldest, c.Oldest.Seconds())
	writeGPUs(p, c)
	for i, firm := range []string{"false", "true"} {
		p.Put(promisedJobs, float64(c.Promises[i].Jobs), firm)
		p.Put(promisedGPUs, whole(c.Promises[i].GPUs), firm)
	}
	for i, n := range c.Machines {
		p.Put(machines, float64(n), mirror.MachinePhases[i])
	}
	for i, n := range c.Outages {
		if word := mirror.OutageWords[i]; word != "" {
			p.Put(outages, float64(n), renamed.SeriesWord(outages.Name, word))
		}
	}
	writeActivity(p, c)
	s.writeShares(p, c)
	writeDescribed(p, c)
	writeSpent(p, c)
}

func writeSpent(p metrics.Page, c *mirror.Census) {
	const gpuSecond = 1e6 // in thousandths of a GPU and milliseconds
	for class, n := range c.Spent.Of {
		p.Put(classNow, whole(c.InClass[class]), renamed.SeriesWord(classNow.Name, goodput.Words[class]))
		p.Put(classSpent, float64(n)/gpuSecond, renamed.SeriesWord(classSpent.Name, goodput.Words[class]))
	}
	p.Put(capacitySpent, float64(c.Spent.Capacity)/gpuSecond)
	for cause, n := range c.Spent.Lost {
		if n != 0 {
			word := messages.Word(messages.Cause(cause).String(), "CAUSE_")
			p.Put(lostSpent, float64(n)/gpuSecond, renamed.SeriesWord(lostSpent.Name, word))
		}
	}
}

func writeActivity(p metrics.Page, c *mirror.Census) {
	var measured, busy int64
	for i, a := range c.Activity {
		p.Put(activeJobs, float64(a.Jobs), mirror.ActivityWords[i])
		p.Put(activeGPUs, whole(a.GPUs), mirror.ActivityWords[i])
		measured, busy = measured+a.Measured, busy+a.Busy
	}
	p.Put(measuredGPUs, float64(measured))
	p.Put(busyGPUs, float64(busy)/100)
	p.Put(slowJobs, float64(c.Slow))
	p.Put(stalledJobs, float64(c.Stalled))
	p.Put(suspectedNodes, float64(c.Suspected))
}

func writeGPUs(p metrics.Page, c *mirror.Census) {
	for state := range mirror.StockStates {
		var all []metrics.Share
		for _, stock := range c.Stocks {
			all = append(all, metrics.Share{Name: stock.Type, Value: whole(stock.Of[state])})
		}
		for _, one := range metrics.Greatest(all, maxTypes) {
			p.Put(gpus, one.Value, one.Name, renamed.SeriesWord(gpus.Name, mirror.StockWords[state]))
		}
	}
	for _, r := range c.Levels {
		p.Put(scattered, whole(r.Scattered), r.Level)
		p.Put(largest, whole(r.Largest), r.Level)
		p.Put(places, float64(r.Places), r.Level)
	}
}

func (s *Source) writeShares(p metrics.Page, c *mirror.Census) {
	spent := func(o mirror.Share) float64 { return float64(o.Spent) / 1e6 }
	held := func(o mirror.Share) float64 { return whole(o.Held) }
	waits := func(o mirror.Share) float64 { return float64(o.Waiting) }
	for _, w := range []struct {
		family *metrics.Family
		of     []mirror.Share
		value  func(mirror.Share) float64
	}{
		{ownerSpent, c.Owners, spent}, {ownerHeld, c.Owners, held}, {ownerWaiting, c.Owners, waits},
		{queueSpent, c.Queues, spent}, {queueHeld, c.Queues, held}, {queueWaiting, c.Queues, waits},
		{queueWanted, c.Queues, func(o mirror.Share) float64 { return whole(o.Wanted) }},
		{queueRunning, c.Queues, func(o mirror.Share) float64 { return float64(o.Running) }},
	} {
		all := make([]metrics.Share, 0, len(w.of))
		for _, o := range w.of {
			all = append(all, metrics.Share{Name: o.Name, Value: w.value(o)})
		}
		for _, one := range metrics.Greatest(all, greatest) {
			if w.family.Kind == metrics.Counter && one.Name == metrics.Rest {
				one.Value = s.grown(w.family, one.Value)
			}
			p.Put(w.family, one.Value, one.Name)
		}
	}
}

// grown makes sure that the sum of the others never decreases. It would decrease when an owner joins the largest
// ones. A reader would then take the decrease for a counter reset and count everything again.
func (s *Source) grown(f *metrics.Family, value float64) float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.most == nil {
		s.most = map[*metrics.Family]float64{}
	}
	s.most[f] = max(s.most[f], value)
	return s.most[f]
}

// writeDescribed writes the configured values of the queues, for as many queues as have their own series.
func writeDescribed(p metrics.Page, c *mirror.Census) {
	for i, q := range c.Described {
		if i == greatest {
			return
		}
		writeAmount(p, quota, q.GetName(), q.GetQuota())
		writeAmount(p, limit, q.GetName(), q.GetLimit())
		if q.GetWeight() > 0 {
			p.Put(weight, float64(q.GetWeight()), q.GetName())
		}
	}
}

func writeAmount(p metrics.Page, f *metrics.Family, queue string, amounts []*messages.Amount) {
	for _, a := range amounts {
		if a.GetName() == allGPUs {
			p.Put(f, whole(a.GetAmount()), queue)
		}
	}
}

// allGPUs is the name of the amount for all GPU types.
const allGPUs = "gpu"

func ageOf(i int) string {
	if i == len(mirror.WaitAges) {
		return "older"
	}
	return words[i]
}

var words = [...]string{"1m", "10m", "1h", "6h", "24h"}

func whole(milli int64) float64 { return float64(milli) / topology.WholeGPU }

func truth(is bool) float64 {
	if is {
		return 1
	}
	return 0
}
