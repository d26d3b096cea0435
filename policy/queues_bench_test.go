package policy

import (
	"fmt"
	"testing"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// BenchmarkQueuesPass measures a pass after the end of one job. Jobs wait in each of 1,000 queues, and every node is
// full. The freed capacity goes to the queue with the next turn.
func BenchmarkQueuesPass(b *testing.B) {
	const queues = 1000
	for _, owners := range []int{1, 10} {
		x := newBusy(1000, 0, 1, 1, DefaultSettings())
		q := &share.Queues{Default: "q0"}
		for i := range queues {
			q.Queues = append(q.Queues, share.QueueSpec{Name: fmt.Sprint("q", i), Weight: num(int64(1 + i%3))})
		}
		x.j.Obey(q)
		add := func(i int) {
			x.made++
			x.queue.Add(Waiting{
				Job: topology.JobID(fmt.Sprintf("w%06d", x.made)), Gang: gang(1, 1), Arrived: int64(x.made), Since: x.now,
				Owner: fmt.Sprint("u", i/queues%owners), Queue: fmt.Sprint("q", i%queues),
			})
		}
		for i := range 10 * queues {
			add(i)
		}
		for range 3 {
			x.pass()
		}
		b.Run(fmt.Sprintf("queues=%d/owners=%d/waiting=%d", queues, owners, 10*queues), func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				x.round()
				for i := range 10*queues - x.queue.Len() {
					add(x.made + i)
				}
				b.StartTimer()
				x.pass()
			}
		})
	}
}
