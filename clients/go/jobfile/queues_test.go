package jobfile

import (
	"fmt"
	"math/rand"
	"reflect"
	"strings"
	"testing"

	"github.com/cockroachdb/datadriven"
	"go.yaml.in/yaml/v3"

	"github.com/yi-json/synapse/policy/share"
	placing "github.com/yi-json/synapse/topology"
)

const queuesHead = "apiVersion: synapse/v1\nkind: Queues\n"

// fullQueues is a queue file with every key.
const fullQueues = queuesHead + `
revision: 3
default: research
notAllowed: [other]
queues:
- {name: research, quota: {gpu: 256, h100: 64}, limit: {gpu: 512}, weight: 2, order: expected, timeLimit: {default: 24h, max: 168h}, nodeSelector: {pool: a}}
- {name: nlp, parent: research, quota: {gpu: 128}, perOwner: {gpu: 64, nodes: 8, running: 500, waiting: 5000}, priority: {default: 50, max: 100}, preemption: {byPriority: true, reclaim: true, shortest: false, minRuntime: 10m, maxGrace: 5m}}
- {name: other, limit: {cpu: 512, memory: 4Ti}, order: fair, owners: [ann, "group:ml team"],
   idle: {after: 2h, then: signal}}
`

func at[T any](n T) *T { return &n }

func TestQueuesAreRead(t *testing.T) {
	got, err := ParseQueues([]byte(fullQueues))
	if err != nil {
		t.Fatal(err)
	}
	const hour = 3600 * 1_000_000_000
	want := &share.Queues{Revision: 3, Default: "research", Queues: []share.QueueSpec{
		{
			Name: "research", Quota: share.Amounts{{Name: "gpu", Amount: 256_000}, {Name: "h100", Amount: 64_000}},
			Limit: share.Amounts{{Name: "gpu", Amount: 512_000}}, Weight: at(int64(2)), Order: at(share.Expected),
			DefaultLimit: at(int64(24 * hour)), MostLimit: at(int64(168 * hour)),
			Selector: []placing.Label{{Key: "pool", Value: "a"}},
		},
		{
			Name: "nlp", Parent: "research", Quota: share.Amounts{{Name: "gpu", Amount: 128_000}},
			Owner: share.PerOwner{
				Amounts:  share.Amounts{{Name: "gpu", Amount: 64_000}},
				Machines: at(int64(8)), Running: at(int64(500)), Waiting: at(int64(5000)),
			},
			DefaultPriority: at(int32(50)), MostPriority: at(int32(100)),
			Preemption: share.Preemption{
				ByPriority: at(true), Reclaim: at(true), Shortest: at(false), MinRun: at(int64(hour / 6)),
				MostGrace: at(int64(hour / 12)),
			},
		},
		{
			Name: "other", Order: at(share.Fair), Owners: []string{"ann", "group:ml team"},
			Limit: share.Amounts{{Name: "cpu", Amount: 512_000}, {Name: "memory", Amount: 4 << 40}},
			Idle:  share.Idle{After: at(int64(2 * hour)), Then: at(share.IdleSignal)},
		},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("read\n%+v\nwant\n%+v", got, want)
	}
	for _, s := range queuesFile().sections {
		for _, k := range s.keys {
			if !strings.Contains(fullQueues, k.name+":") {
				t.Errorf("%s is not in the full example", join(s.path, k.name))
			}
		}
	}
}

// TestQueuesRefused checks the error text of each mistake. `go test -rewrite` accepts the current texts.
func TestQueuesRefused(t *testing.T) {
	datadriven.RunTest(t, "testdata/queues.txt", func(t *testing.T, d *datadriven.TestData) string {
		text := d.Input + "\n"
		if d.Cmd == "queues" {
			text = queuesHead + "queues:\n" + text
		}
		_, err := ParseQueues([]byte(text))
		problems, ok := err.(Problems)
		if !ok {
			return fmt.Sprintf("not refused: %v", err)
		}
		return strings.Join(problems.Lines("queues.yaml"), "\n") + "\n"
	})
}

// TestQueuesRoundTrip checks that formatted queues parse as the same queues, for any combination of set
// values.
func TestQueuesRoundTrip(t *testing.T) {
	read := func(text []byte) *share.Queues {
		t.Helper()
		q, err := ParseQueues(text)
		if err != nil {
			t.Fatalf("%s\n%s", text, err)
		}
		return q
	}
	write := func(q *share.Queues) []byte {
		text, err := yaml.Marshal(FormatQueues(q))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	q := read([]byte(fullQueues))
	if back := read(write(q)); !reflect.DeepEqual(q, back) {
		t.Errorf("read back\n%+v\nof\n%+v", back, q)
	}
	r := rand.New(rand.NewSource(1))
	for range 500 {
		q := drawnQueues(r)
		if back := read(write(q)); !reflect.DeepEqual(q, back) {
			t.Fatalf("read back\n%+v\nof\n%+v\nfrom\n%s", back, q, write(q))
		}
	}
}

// drawnQueues returns a random valid set of queues.
func drawnQueues(r *rand.Rand) *share.Queues {
	q := &share.Queues{Revision: uint64(r.Intn(3))}
	for i := range 1 + r.Intn(6) {
		s := share.QueueSpec{Name: fmt.Sprintf("q%d", i)}
		if i > 0 && r.Intn(2) == 0 {
			s.Parent = fmt.Sprintf("q%d", r.Intn(i))
		}
		if r.Intn(2) == 0 {
			s.Limit = share.Amounts{{Name: "cpu", Amount: int64(r.Intn(1e6))}, {Name: "gpu", Amount: int64(r.Intn(1e6))}}
		} else if r.Intn(2) == 0 {
			s.Limit = share.Amounts{{Name: "a100", Amount: int64(r.Intn(9))}, {Name: "memory", Amount: int64(r.Intn(9)) << 30}}
		}
		s.Owner.Amounts = s.Limit
		maybe(r, &s.Owner.Running, int64(r.Intn(9)))
		maybe(r, &s.Owner.Machines, int64(r.Intn(9)))
		if n := r.Intn(3); n > 0 {
			s.Owners = []string{"ann.b", "group:a: {b}", "group:#\"c"}[:n]
		}
		maybe(r, &s.Weight, 1+int64(r.Intn(9)))
		maybe(r, &s.Order, share.Order(r.Intn(3)))
		maybe(r, &s.MostLimit, int64(1+r.Intn(1e6))*nsOfMs)
		maybe(r, &s.DefaultPriority, -int32(r.Intn(9)))
		maybe(r, &s.Preemption.Reclaim, r.Intn(2) == 0)
		maybe(r, &s.Preemption.MinRun, int64(r.Intn(1e6))*nsOfMs)
		maybe(r, &s.Preemption.MostGrace, int64(1+r.Intn(1e6))*nsOfMs)
		maybe(r, &s.Idle.After, int64(60_000+r.Intn(1e6))*nsOfMs)
		maybe(r, &s.Idle.Then, share.IdleAction(r.Intn(2)))
		q.Queues = append(q.Queues, s)
	}
	if r.Intn(2) == 0 {
		q.Default = q.Queues[r.Intn(len(q.Queues))].Name
	}
	return q
}

func maybe[T any](r *rand.Rand, to **T, n T) {
	if r.Intn(2) == 0 {
		*to = &n
	}
}
