package timeline

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// This file stores the sums of a cluster: one line of JSON per minute, and one file per day.

const (
	// sumsFor is how long sums are stored, and sumsFile how long one file is written.
	sumsFor  = 31 * 24 * time.Hour
	sumsFile = 24 * time.Hour

	// maxSums limits the size of their files. A cluster with very many queues keeps fewer days.
	maxSums = 100 << 20

	sumsSuffix = ".sums"
	maxSum     = 256 << 10 // of a line
)

// Sum holds the values of one minute, or the averages of several. GPUs are in thousandths, times in milliseconds.
type Sum struct {
	AtMs    int64            `json:"at"`
	Of      int64            `json:"of"` // number of averaged sums
	GPUs    map[string]int64 `json:"gpus"`
	Waiting map[string]int64 `json:"waiting,omitempty"` // jobs, by kind of reason
	Queues  map[string]Queue `json:"queues,omitempty"`
	// Waits holds the waiting times of the jobs whose first attempt was committed, by gang size. Promises
	// compares their starts with their first estimates. Both are added up, not averaged.
	Waits    map[string]Wait `json:"waits,omitempty"`
	Promises Promises        `json:"promises"`
	// Read is the stored reading. Time is the difference from the previous line in answers, and is added up.
	Read *Reading `json:"read,omitempty"` // nil in lines of older versions
	Time *Spent   `json:"time,omitempty"`
}

// Queue holds the values of one queue.
type Queue struct {
	Use     int64  `json:"use,omitempty"`
	Asked   int64  `json:"asked,omitempty"`
	Running int64  `json:"running,omitempty"`
	Waiting int64  `json:"waiting,omitempty"`
	Quota   *int64 `json:"quota,omitempty"` // nil: the queue is not configured
	Limit   *int64 `json:"limit,omitempty"`
}

// Wait holds the waiting times of several jobs.
type Wait struct {
	Jobs int64 `json:"jobs"`
	Ms   int64 `json:"ms"`   // total
	Most int64 `json:"most"` // longest
}

// Promises holds the differences between the starts of jobs and their first estimates.
type Promises struct {
	Jobs  int64 `json:"jobs,omitempty"`
	Late  int64 `json:"late,omitempty"`  // total in milliseconds
	Early int64 `json:"early,omitempty"` // total in milliseconds
	Near  int64 `json:"near,omitempty"`  // jobs that started within NearMs
}

// NearMs is the largest difference that counts as a correct estimate.
const NearMs = 5 * 60 * 1000

// Sizes lists the classes of gang sizes, in GPUs.
var Sizes = []string{"none", "up to 1", "2–8", "9–64", "65–512", "more than 512"}

// SizeOf returns the class of a gang with this many thousandths of GPUs.
func SizeOf(milli int64) string {
	for i, most := range []int64{0, 1_000, 8_000, 64_000, 512_000} {
		if milli <= most {
			return Sizes[i]
		}
	}
	return Sizes[len(Sizes)-1]
}

// WriteSum appends a line.
func WriteSum(dir string, s *Sum) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	all, err := files(dir, sumsSuffix)
	if err != nil {
		return err
	}
	path := filepath.Join(dir, fmt.Sprintf("%015d%s", s.AtMs, sumsSuffix))
	var size int64
	for _, p := range slices.Backward(all) {
		size += p.size
		if size > maxSums || p.began < s.AtMs-(sumsFor+sumsFile).Milliseconds() {
			_ = os.Remove(p.path) // on failure, the next line tries again
		}
	}
	if n := len(all); n > 0 && all[n-1].began <= s.AtMs && s.AtMs < all[n-1].began+sumsFile.Milliseconds() {
		path = all[n-1].path
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// The previous line may be incomplete. A newline comes first, so that this line is separate.
	_, err = file.Write(append(append([]byte{'\n'}, text...), '\n'))
	return errors.Join(err, file.Close())
}

// ReadSums calls take with the sums of a time range, averaged over steps. It omits steps without data. Used GPU
// time is the difference between the first and the last reading.
func ReadSums(dir string, from, until, step int64, take func(*Sum) error) error {
	all, err := files(dir, sumsSuffix)
	if err != nil {
		return err
	}
	var now *Sum
	var base *Reading
	for i, p := range all {
		if p.began > until || i+1 < len(all) && all[i+1].began <= from {
			continue
		}
		text, err := os.ReadFile(p.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return err
		}
		lines := bufio.NewScanner(bytes.NewReader(text))
		lines.Buffer(nil, maxSum)
		for lines.Scan() {
			var one Sum
			if json.Unmarshal(lines.Bytes(), &one) != nil || one.AtMs < from || one.AtMs > until {
				continue // incomplete, or outside the time range
			}
			one.Of, one.AtMs = 1, one.AtMs-(one.AtMs-from)%step
			one.Time = one.Read.after(base)
			if one.Read != nil {
				base, one.Read = one.Read, nil
			}
			if now != nil && now.AtMs == one.AtMs {
				now.add(&one)
				continue
			}
			if err := now.tell(take); err != nil {
				return err
			}
			now = &one
		}
	}
	return now.tell(take)
}

// tell converts totals into averages and passes the sum on.
func (s *Sum) tell(take func(*Sum) error) error {
	if s == nil {
		return nil
	}
	each := func(of map[string]int64) {
		for name, n := range of { //order: each is independent
			of[name] = n / s.Of
		}
	}
	each(s.GPUs)
	each(s.Waiting)
	for name, q := range s.Queues { //order: each is independent
		q.Use, q.Asked, q.Running, q.Waiting = q.Use/s.Of, q.Asked/s.Of, q.Running/s.Of, q.Waiting/s.Of
		s.Queues[name] = q
	}
	return take(s)
}

func (s *Sum) add(o *Sum) {
	s.Of += o.Of
	s.GPUs, s.Waiting = added(s.GPUs, o.GPUs), added(s.Waiting, o.Waiting)
	for name, q := range o.Queues { //order: each is independent
		if s.Queues == nil {
			s.Queues = map[string]Queue{}
		}
		sum := s.Queues[name]
		s.Queues[name] = Queue{sum.Use + q.Use, sum.Asked + q.Asked, sum.Running + q.Running, sum.Waiting + q.Waiting,
			q.Quota, q.Limit} // quota and limit are the last ones
	}
	for size, w := range o.Waits { //order: each is independent
		if s.Waits == nil {
			s.Waits = map[string]Wait{}
		}
		sum := s.Waits[size]
		s.Waits[size] = Wait{sum.Jobs + w.Jobs, sum.Ms + w.Ms, max(sum.Most, w.Most)}
	}
	s.Time = s.Time.plus(o.Time)
	p, q := &s.Promises, o.Promises
	p.Jobs, p.Late, p.Early, p.Near = p.Jobs+q.Jobs, p.Late+q.Late, p.Early+q.Early, p.Near+q.Near
}

func added(to, from map[string]int64) map[string]int64 {
	if to == nil {
		return from
	}
	for name, n := range from { //order: each is independent
		to[name] += n
	}
	return to
}
