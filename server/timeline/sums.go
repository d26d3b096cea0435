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

// This file owns the sums of a cluster over time: one line of JSON a minute, a file a day.

const (
	// sumsFor is for how long they are kept, and sumsFile for how long one file is written.
	sumsFor  = 31 * 24 * time.Hour
	sumsFile = 24 * time.Hour

	// maxSums bounds their files: of a cluster with very many queues they are of fewer days.
	maxSums = 100 << 20

	sumsSuffix = ".sums"
	maxSum     = 256 << 10 // of a line
)

// Sum says how it was in one minute, or on average in several. GPUs are in thousandths, times in milliseconds.
type Sum struct {
	AtMs    int64            `json:"at"`
	Of      int64            `json:"of"` // how many it is the average of
	GPUs    map[string]int64 `json:"gpus"`
	Waiting map[string]int64 `json:"waiting,omitempty"` // jobs, by the kind of reason
	Queues  map[string]Queue `json:"queues,omitempty"`
	// Waits are of the jobs that were committed in the time, by the size of their gangs, and Promises of what these had
	// been told first. They are added up.
	Waits    map[string]Wait `json:"waits,omitempty"`
	Promises Promises        `json:"promises"`
	// Read is as it is kept, and Time as it is told: what was counted since the line before. It is added up.
	Read *Reading `json:"read,omitempty"` // none: of a version that kept none
	Time *Spent   `json:"time,omitempty"`
}

// Queue says what one queue had.
type Queue struct {
	Use     int64  `json:"use,omitempty"`
	Asked   int64  `json:"asked,omitempty"`
	Running int64  `json:"running,omitempty"`
	Waiting int64  `json:"waiting,omitempty"`
	Quota   *int64 `json:"quota,omitempty"` // none: it is not described
	Limit   *int64 `json:"limit,omitempty"`
}

// Wait says how long some jobs had waited.
type Wait struct {
	Jobs int64 `json:"jobs"`
	Ms   int64 `json:"ms"`   // of all together
	Most int64 `json:"most"` // of one
}

// Promises are by how much some jobs began later or earlier than they were told.
type Promises struct {
	Jobs  int64 `json:"jobs,omitempty"`
	Late  int64 `json:"late,omitempty"`  // milliseconds, of all together
	Early int64 `json:"early,omitempty"` // likewise
	Near  int64 `json:"near,omitempty"`  // jobs that began within NearMs
}

// NearMs is up to how far from what it was told a start is near it.
const NearMs = 5 * 60 * 1000

// Sizes are the sizes of gangs that are told apart, by their GPUs.
var Sizes = []string{"none", "up to 1", "2–8", "9–64", "65–512", "more than 512"}

// SizeOf is the size of a gang of so many thousandths of GPUs.
func SizeOf(milli int64) string {
	for i, most := range []int64{0, 1_000, 8_000, 64_000, 512_000} {
		if milli <= most {
			return Sizes[i]
		}
	}
	return Sizes[len(Sizes)-1]
}

// WriteSum adds a line.
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
			_ = os.Remove(p.path) // or it is tried again with the next line
		}
	}
	if n := len(all); n > 0 && all[n-1].began <= s.AtMs && s.AtMs < all[n-1].began+sumsFile.Milliseconds() {
		path = all[n-1].path
	}
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	// The line before may have been cut off: this one has a line of its own in any case.
	_, err = file.Write(append(append([]byte{'\n'}, text...), '\n'))
	return errors.Join(err, file.Close())
}

// ReadSums tells the sums of a time, averaged over steps. A step of which nothing is known is left out. Of where GPU
// time went it tells from the first reading in the time to the last one.
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
				continue // it was cut off, or is of another time
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

// tell makes averages of what was added up.
func (s *Sum) tell(take func(*Sum) error) error {
	if s == nil {
		return nil
	}
	each := func(of map[string]int64) {
		for name, n := range of { //order: each alike
			of[name] = n / s.Of
		}
	}
	each(s.GPUs)
	each(s.Waiting)
	for name, q := range s.Queues { //order: each alike
		q.Use, q.Asked, q.Running, q.Waiting = q.Use/s.Of, q.Asked/s.Of, q.Running/s.Of, q.Waiting/s.Of
		s.Queues[name] = q
	}
	return take(s)
}

func (s *Sum) add(o *Sum) {
	s.Of += o.Of
	s.GPUs, s.Waiting = added(s.GPUs, o.GPUs), added(s.Waiting, o.Waiting)
	for name, q := range o.Queues { //order: each alike
		if s.Queues == nil {
			s.Queues = map[string]Queue{}
		}
		sum := s.Queues[name]
		s.Queues[name] = Queue{sum.Use + q.Use, sum.Asked + q.Asked, sum.Running + q.Running, sum.Waiting + q.Waiting,
			q.Quota, q.Limit} // these are as they were last
	}
	for size, w := range o.Waits { //order: each alike
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
	for name, n := range from { //order: each alike
		to[name] += n
	}
	return to
}
