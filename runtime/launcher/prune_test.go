package launcher

import (
	"slices"
	"testing"
	"time"
)

// TestExcess checks which entries are removed: first those that are too old, then the oldest of the owner who keeps
// most, until the rest is within the limits.
func TestExcess(t *testing.T) {
	now := time.Now()
	ago := func(hours int) time.Time { return now.Add(-time.Duration(hours) * time.Hour) }
	roomy := limits{bytes: 1 << 30, tasks: 100, before: ago(24)}
	few, small := roomy, roomy
	few.tasks, small.bytes = 2, 50
	for _, c := range []struct {
		name string
		all  []leaving
		most limits
		want []string
	}{
		{"nothing", nil, roomy, nil},
		{"all fit", []leaving{{name: "a", owner: "ann", since: ago(2), bytes: 9}}, roomy, nil},
		{"one is too old, to the very moment", []leaving{
			{name: "a", owner: "ann", since: ago(24)}, {name: "b", owner: "bob", since: ago(25)},
			{name: "c", owner: "ann", since: ago(1)},
		}, roomy, []string{"b", "a"}},
		{"too many: of the one who keeps most", []leaving{
			{name: "a", owner: "ann", since: ago(9), bytes: 1}, {name: "b", owner: "bob", since: ago(8), bytes: 5},
			{name: "c", owner: "bob", since: ago(7), bytes: 5},
		}, few, []string{"b"}},
		{"too many, of two who keep as much: the one who kept first", []leaving{
			{name: "b", owner: "bob", since: ago(8), bytes: 5}, {name: "a", owner: "ann", since: ago(9), bytes: 5},
			{name: "c", owner: "cid", since: ago(7), bytes: 5},
		}, few, []string{"a"}},
		{"too much: until another one keeps most", []leaving{
			{name: "a", owner: "ann", since: ago(9), bytes: 40}, {name: "b", owner: "bob", since: ago(8), bytes: 30},
			{name: "c", owner: "bob", since: ago(7), bytes: 30}, {name: "d", owner: "bob", since: ago(6), bytes: 1},
		}, small, []string{"b", "a"}},
		{"more than all may keep", []leaving{{name: "a", since: ago(1), bytes: 51}}, small, []string{"a"}},
	} {
		l := leavings{}
		for _, k := range c.all {
			l.add(k)
		}
		var got []string
		for _, k := range l.excess(c.most) {
			got = append(got, k.name)
			l.remove(k.name)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v go, want %v", c.name, got, c.want)
		}
		if again := l.excess(c.most); len(again) > 0 {
			t.Errorf("%s: then %v go", c.name, again)
		}
	}
}

// TestMeasuredOnce checks that only new entries are measured.
func TestMeasuredOnce(t *testing.T) {
	l := leavings{}
	for i, name := range []string{"a", "b", "c"} {
		l.add(leaving{name: name, owner: []string{"ann", "bob"}[i%2]})
	}
	for _, k := range l.unmeasured() {
		l.measure(k, 7)
	}
	l.add(leaving{name: "d", owner: "ann"})
	if fresh := l.unmeasured(); len(fresh) != 1 || fresh[0].name != "d" {
		t.Errorf("to be measured are %v", fresh)
	}
	for _, name := range []string{"a", "b", "c", "d"} {
		l.remove(name)
	}
	if len(l) != 0 {
		t.Errorf("left are %v", l)
	}
}
