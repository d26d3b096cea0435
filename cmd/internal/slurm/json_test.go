package slurm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/yi-json/synapse/messages"
)

// This file tests that Slurm's JSON has exactly the keys of json.txt, with their types.

// fits reports the first path at which a value has not the type of the key.
func fits(kind string, value any) bool {
	switch kind {
	case "string":
		_, is := value.(string)
		return is
	case "integer", "number":
		_, is := value.(float64)
		return is
	case "boolean":
		_, is := value.(bool)
		return is
	case "count":
		count, is := value.(map[string]any)
		return is && len(count) == 3 && fits("boolean", count["set"]) && fits("boolean", count["infinite"]) &&
			fits("integer", count["number"])
	}
	return true
}

// lacks returns the differences between an object and its keys.
func lacks(kind jsonKind, prefix string, object any) (wrong []string) {
	paths, types := keysOf(kind, prefix)
	for i, path := range paths {
		at := object
		for n, part := range strings.Split(path, ".") {
			name, list := strings.CutSuffix(part, "[]")
			of, is := at.(map[string]any)
			value, has := of[name]
			if !is || !has {
				wrong = append(wrong, path+" is missing")
				break
			}
			if !list {
				at = value
			} else if all, is := value.([]any); !is {
				wrong = append(wrong, path+" is no list")
				break
			} else if len(all) == 0 || strings.Count(path, ".") == n && types[i] == "object" {
				at = nil
				break
			} else {
				at = all[0]
			}
		}
		if at != nil && !fits(types[i], at) {
			wrong = append(wrong, fmt.Sprintf("%s is %v, which is no %s", path, at, types[i]))
		}
	}
	return wrong
}

func TestJSONKeys(t *testing.T) {
	entry := &Entry{ID: "77", ArrayID: "N/A", Element: "N/A", Job: "jabcdefghijkl", Name: "train", User: "ann",
		State:    "RUNNING",
		Machines: []string{"n1", "n2"}, Nodes: 2, CPUs: 8, GPUs: 16, Memory: 4 << 30, Tasks: 4, StartMs: 5000, SubmitMs: 1000}
	element := *entry
	element.ArrayID, element.Element, element.State, element.EndMs, element.Exit = "9", "3", "FAILED", 9000, 2
	node := &Machine{Name: "n1", State: "mixed", CPUs: 8, UsedCPUs: 2, GPUs: 8, Memory: 1 << 30, Features: "a=b"}
	partition := &Partition{Name: "all", Limit: "1-00:00:00", Machines: []*Machine{node}}
	for _, c := range []struct {
		kind   jsonKind
		object map[string]any
		has    string
	}{
		{jsonJob, entry.Object(), `"name":"n2","sockets":[]`},
		{jsonJob, element.Object(), `"array_task_id":{"infinite":false,"number":3`},
		{jsonJob, (&Entry{ArrayID: "N/A", State: "PENDING"}).Object(), `"time_limit":{"infinite":true`},
		{jsonPast, entry.PastObject(), `"state":{"current":["RUNNING"]`},
		{jsonPast, element.PastObject(), `"status":["ERROR"]`},
		{jsonNode, node.Object([]string{"all"}), `"partitions":["all"]`},
		{jsonNode, (&Machine{State: "down*"}).Object(nil), "NOT_RESPONDING"},
		{jsonPartition, partition.Object(), `"number":1440`}, {jsonSinfo, partition.Line(), `"total":8`},
		{jsonSinfo, (&Partition{Name: "none", Limit: "infinite"}).Line(), `"hostnames":[]`},
		{jsonMeta, Meta("ann", []string{"squeue"}), `"major":"24"`},
	} {
		text, err := json.Marshal(c.object)
		if err != nil {
			t.Fatal(err)
		}
		var read any
		if err := json.Unmarshal(text, &read); err != nil {
			t.Fatal(err)
		}
		if wrong := lacks(c.kind, "", read); len(wrong) > 0 {
			t.Errorf("%s: %s", c.kind, strings.Join(wrong, "; "))
		}
		if !strings.Contains(string(text), c.has) {
			t.Errorf("%s: %s is missing in %s", c.kind, c.has, text)
		}
	}
	if id := entry.Object()["job_id"]; fmt.Sprint(id) != messages.NumericID("jabcdefghijkl") {
		t.Errorf("the number is %v", id)
	}
}
