package jobfile

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"google.golang.org/protobuf/proto"

	"github.com/yi-json/synapse/messages"
)

// This file compares two jobs by the keys of a job file.

// Differ returns the keys of a job file whose values differ between two jobs, in alphabetical order. It ignores the
// folder of the submit, and values that are not stored with a job: the text of a script, which has a digest, and the
// values of secrets.
func Differ(a, b *messages.JobSpec) []string {
	keys := differ("", tree(a), tree(b))
	if a.GetScript().GetDigest() != b.GetScript().GetDigest() && !slices.Contains(keys, "spec.script") {
		keys = append(keys, "spec.script")
	}
	slices.Sort(keys)
	return keys
}

// tree returns a job as the objects of its job file.
func tree(spec *messages.JobSpec) any {
	bare := proto.Clone(spec.Bare()).(*messages.JobSpec)
	if bare.Script != nil {
		bare.Script.Text = nil
	}
	text, err := json.Marshal(Format(bare))
	if err != nil {
		panic(err) // a job file consists of texts, numbers and lists
	}
	var value any
	if err := json.Unmarshal(text, &value); err != nil {
		panic(err)
	}
	return value
}

// differ returns the paths at which two objects differ.
func differ(path string, a, b any) (keys []string) {
	x, isX := a.(map[string]any)
	y, isY := b.(map[string]any)
	if !isX || !isY {
		if !reflect.DeepEqual(a, b) {
			keys = append(keys, path)
		}
		return keys
	}
	all := maps.Clone(x)
	maps.Copy(all, y)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		below := name
		if path != "" {
			below = path + "." + name
		}
		keys = append(keys, differ(below, x[name], y[name])...)
	}
	return keys
}
