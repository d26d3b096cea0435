package queues

import (
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/policy/share"
	"github.com/yi-json/synapse/topology"
)

// TestThereAndBack checks that every value of a queue survives the conversion in both directions, and that unset values
// stay unset.
func TestThereAndBack(t *testing.T) {
	n, weight, minutes, priority, yes := int64(5), int64(3), int64(600_000_000_000), int32(7), true
	signal := share.IdleSignal
	var all []share.QueueSpec
	for _, order := range []share.Order{share.Expected, share.FIFO, share.Fair} {
		all = append(all, share.QueueSpec{
			Name: "nlp", Parent: "research", Quota: share.Amounts{{Name: "gpu", Amount: 8000}},
			Limit: share.Amounts{{Name: "h100", Amount: 9000}}, Weight: &weight, Order: &order,
			Owner: share.PerOwner{
				Amounts: share.Amounts{{Name: "memory", Amount: 1 << 40}}, Machines: &n, Running: &n, Waiting: &n,
			},
			DefaultLimit: &minutes, MostLimit: &minutes, Selector: []topology.Label{{Key: "pool", Value: "a"}},
			DefaultPriority: &priority, MostPriority: &priority,
			Preemption: share.Preemption{ByPriority: &yes, Reclaim: &yes, Shortest: &yes, MinRun: &minutes, MostGrace: &minutes},
			Owners:     []string{"ann", "group:ml"},
			Idle:       share.Idle{After: &minutes, Then: &signal},
		})
	}
	report := share.IdleReport
	all = append(all, share.QueueSpec{Name: "bare"}, share.QueueSpec{Name: "told", Idle: share.Idle{Then: &report}})
	q := &share.Queues{Revision: 4, Default: "nlp", Queues: all}
	data, err := proto.Marshal(To(q))
	if err != nil {
		t.Fatal(err)
	}
	read := To(&share.Queues{})
	if err := proto.Unmarshal(data, read); err != nil {
		t.Fatal(err)
	}
	if back := From(read, 4); !reflect.DeepEqual(back, q) {
		t.Errorf("came back as\n%+v\nwas\n%+v", back, q)
	}
	given := reflect.ValueOf(all[0])
	for i := range given.NumField() {
		if given.Field(i).IsZero() {
			t.Errorf("%s is not tried", given.Type().Field(i).Name)
		}
	}
}
