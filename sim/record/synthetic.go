package record

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// This file draws synthetic workloads from a seed. It uses only integers, so that the same parameters give the same
// jobs on every host. The workloads have the properties that make real ones hard. Most jobs are short, and a few long
// ones use most GPU-hours. Most gangs are small, and a few need half the cluster. Users submit during the day and on
// weekdays, and often many jobs at once.

// Synthetic holds the parameters of a drawn workload.
type Synthetic struct {
	Jobs   int
	Days   int
	Users  int
	Gangs  int // percentage of jobs that need more than 8 GPUs
	Bursts int // percentage of submissions with many jobs at once
	Seed   int
}

// DefaultSynthetic describes a week that keeps a dozen nodes of 8 GPUs busy.
func DefaultSynthetic() Synthetic {
	return Synthetic{Jobs: 2500, Days: 7, Users: 40, Gangs: 8, Bursts: 8, Seed: 1}
}

// field describes one parameter of a Synthetic: its location and its bounds.
type field struct {
	word        string
	to          *int
	least, most int
}

func (s *Synthetic) fields() []field {
	return []field{
		{"jobs", &s.Jobs, 1, 10_000_000}, {"days", &s.Days, 1, 3650}, {"users", &s.Users, 1, 100_000},
		{"gangs", &s.Gangs, 0, 100},
		{"bursts", &s.Bursts, 0, 100}, {"seed", &s.Seed, 0, 1 << 31},
	}
}

// SyntheticWords returns the parameters of a Synthetic.
func SyntheticWords() []string {
	var words []string
	for _, f := range new(Synthetic).fields() {
		words = append(words, f.word)
	}
	return words
}

// Set sets one parameter. The caller must use a word of SyntheticWords.
func (s *Synthetic) Set(word string, n int) error {
	for _, f := range s.fields() {
		if f.word != word {
			continue
		}
		if n < f.least || n > f.most {
			return fmt.Errorf("%s=%d is out of range: %d to %d", word, n, f.least, f.most)
		}
		*f.to = n
		return nil
	}
	panic("a synthetic workload has no " + word)
}

// Weights of the draws. They resemble published traces, but none in particular.
var (
	hourWeights = []int{3, 2, 2, 1, 1, 1, 2, 4, 8, 12, 14, 14, 11, 13, 15, 15, 14, 12, 9, 7, 6, 5, 5, 4}
	dayWeights  = []int{10, 11, 11, 10, 9, 3, 3} // from Monday

	smallGPUs    = []int{1, 2, 4, 8}
	smallWeights = []int{58, 14, 12, 16}
	gangGPUs     = []int{16, 24, 32, 48, 64, 96}
	gangWeights  = []int{50, 10, 22, 4, 10, 4}

	burstGPUs = 8 // a user with many experiments runs each on one node

	// Job lengths in octaves from one minute. An hour is in the sixth octave.
	octaveWeights = []int{12, 14, 15, 15, 13, 11, 8, 5, 4, 2, 1}

	limits = []time.Duration{
		time.Hour, 4 * time.Hour, 12 * time.Hour, 24 * time.Hour, 48 * time.Hour, 72 * time.Hour, 7 * 24 * time.Hour,
	}
)

// dice draws numbers by SplitMix64, which is short and the same everywhere.
type dice uint64

func (d *dice) below(n int) int {
	*d += 0x9e3779b97f4a7c15
	z := uint64(*d)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return int((z ^ z>>31) >> 1 % uint64(n))
}

// weighted draws an index by its weight.
func (d *dice) weighted(weights []int) int {
	sum := 0
	for _, w := range weights {
		sum += w
	}
	at := d.below(sum)
	for i, w := range weights {
		if at -= w; at < 0 {
			return i
		}
	}
	panic("a weight is below 0")
}

// Trace draws the workload.
func (s Synthetic) Trace() *Trace {
	d := dice(s.Seed)
	days := make([]int, s.Days)
	for i := range days {
		days[i] = dayWeights[i%len(dayWeights)]
	}
	t := &Trace{}
	for len(t.Jobs) < s.Jobs {
		at := time.Duration(d.weighted(days))*24*time.Hour + time.Duration(d.weighted(hourWeights))*time.Hour +
			time.Duration(d.below(3600))*time.Second
		first, many := s.draw(&d), 1
		if first.GPUs <= burstGPUs && d.below(100) < s.Bursts {
			many = 4 + d.below(40)
		}
		for range min(many, s.Jobs-len(t.Jobs)) {
			one := first
			one.Submit = at
			one.Duration = (first.Duration * time.Duration(70+d.below(60)) / 100).Truncate(time.Second)
			if first.Limit > 0 {
				one.Duration = min(one.Duration, first.Limit)
			}
			t.Jobs = append(t.Jobs, one)
			at += time.Duration(d.below(10)) * time.Second
		}
	}
	slices.SortStableFunc(t.Jobs, func(a, b Job) int { return cmp.Compare(a.Submit, b.Submit) })
	for i := range t.Jobs {
		t.Jobs[i].Line = i + 1
	}
	return t
}

// draw draws a job without its submit time. All jobs of a user have the same queue and similar lengths.
func (s Synthetic) draw(d *dice) Job {
	user := d.below(1 + d.below(s.Users)) // the first users submit most
	habit := dice(user + 1)
	j := Job{
		User: fmt.Sprintf("user-%02d", user+1), Queue: []string{
			"research", "research", "production", "students",
		}[habit.below(4)],
	}
	j.GPUs = smallGPUs[d.weighted(smallWeights)]
	if d.below(100) < s.Gangs {
		j.GPUs = gangGPUs[d.weighted(gangWeights)]
	}
	octave := max(0, min(len(octaveWeights)-1, d.weighted(octaveWeights)+habit.below(3)-1))
	length := 60 << octave
	j.Duration = time.Duration(length+d.below(length)) * time.Second
	if d.below(10) > 0 { // one job in ten has no limit
		generous := j.Duration * time.Duration(100+d.below(300)) / 100
		at, _ := slices.BinarySearch(limits, generous)
		j.Limit = limits[min(at, len(limits)-1)]
	}
	if d.below(6) == 0 { // it fails soon
		j.Duration = time.Duration(5+d.below(115)) * time.Second
	}
	return j
}
