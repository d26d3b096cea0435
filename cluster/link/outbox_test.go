package link

import (
	"errors"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/yi-json/synapse/clock"
	"github.com/yi-json/synapse/cluster/link/envelope"
)

// TestBatchesAreBounded checks that a batch ends at 512 messages or 256 KiB. One longer message is a batch of its own.
func TestBatchesAreBounded(t *testing.T) {
	small, long := envelope.Letter{Kind: "k", To: "a"}, envelope.Letter{Kind: "k", To: "a", Data: make([]byte, 1<<20)}
	half := envelope.Letter{Kind: "k", To: "a", Data: make([]byte, maxBatchBytes/2)}
	for _, c := range []struct {
		letters []envelope.Letter
		want    []int
	}{
		{repeated(small, 1), []int{1}},
		{repeated(small, 1100), []int{512, 512, 76}},
		{[]envelope.Letter{small, long, small, half, half, small}, []int{1, 1, 2, 2}},
	} {
		var counts tally
		b := outbox{count: counts.count}
		for _, l := range c.letters {
			b.put(l)
		}
		for _, want := range c.want {
			if got := len(b.take()); got != want {
				t.Errorf("a batch of %d, want %d", got, want)
			}
		}
		if b.take() != nil || b.bytes != 0 || len(counts.by) != 0 {
			t.Errorf("left: %d bytes, %v", b.bytes, counts.by)
		}
	}
}

func repeated(l envelope.Letter, n int) []envelope.Letter {
	list := make([]envelope.Letter, n)
	for i := range list {
		list[i] = l
	}
	return list
}

// TestQueueIsBounded checks that a slow peer costs no more memory than the queue, and that the earliest messages are
// kept.
func TestQueueIsBounded(t *testing.T) {
	for _, c := range []struct {
		l    envelope.Letter
		most int
	}{
		{envelope.Letter{Kind: "k", To: "a"}, maxQueuedMessages},
		{envelope.Letter{Kind: "k", To: "a", Data: make([]byte, 3<<20)}, 2},
	} {
		var counts tally
		b := outbox{count: counts.count}
		for range c.most + 5 {
			b.put(c.l)
		}
		if len(b.letters) != c.most || b.bytes > maxQueuedBytes || counts.of(countFull) != 5 {
			t.Errorf("%d of %d wait, %d bytes, %v", len(b.letters), c.most, b.bytes, counts.by)
		}
		b.end()
		b.put(c.l)
		if counts.of(countNoLink) != int64(c.most)+1 || b.bytes != 0 || b.letters != nil {
			t.Errorf("after its end: %v", counts.by)
		}
	}
}

// TestWriterComesAndGoes checks that there is exactly one writer while there is something to write, also after a stream
// has failed.
func TestWriterComesAndGoes(t *testing.T) {
	var counts tally
	var writing, most atomic.Int32
	b := outbox{count: counts.count, failed: func(error) {}}
	b.send = func([]envelope.Letter) error {
		most.Store(max(most.Load(), writing.Add(1)))
		defer writing.Add(-1)
		if counts.of(countSent) >= 50 {
			return errors.New("broken")
		}
		time.Sleep(100 * time.Microsecond)
		return nil
	}
	b.put(envelope.Letter{Kind: "k", To: "a"})
	if b.writing { // no other goroutine uses it yet
		t.Error("it writes before it may")
	}
	b.begin()
	for range 99 {
		b.put(envelope.Letter{Kind: "k", To: "a"})
		runtime.Gosched()
	}
	b.writers.Wait()
	if b.writing || most.Load() != 1 || counts.of(countSent)+counts.of(countNoLink) != 100 {
		t.Errorf("writing %v, at once %d, %v", b.writing, most.Load(), counts.by)
	}
}

// TestPace checks that a peer may send a burst of one second, and then as much as the rate allows.
func TestPace(t *testing.T) {
	now := &still{}
	p := pace{clock: now}
	if w := p.took(10_000, 0); w > 0 {
		t.Errorf("a burst waits %v", w)
	}
	if w := p.took(10_000, 0); w != time.Second {
		t.Errorf("as much again waits %v", w)
	}
	now.at = now.at.Add(time.Second)
	if w := p.took(0, 16<<20); w != time.Second {
		t.Errorf("16 MiB more wait %v", w)
	}
	now.at = now.at.Add(time.Hour) // unused time beyond the burst does not count
	if w := p.took(20_000, 0); w != time.Second {
		t.Errorf("after an hour: %v", w)
	}
}

type still struct {
	clock.Real
	at time.Time
}

func (s *still) Now() time.Time { return s.at }
