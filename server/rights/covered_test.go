package rights

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// This file checks that each field of each request has a line in needs or an entry in this table.

// covered lists the fields of requests without a line in needs, by message. The right for the call covers them. A
// field written as a/b is read only together with field b, which has a line. A message inside a request is covered
// completely, unless needs has a line for one of its fields.
var covered = []struct{ message, fields string }{
	{"Submit", "principal request_id allow_infeasible sealed exempt groups hold"},
	{"DryRun", "principal allow_infeasible exempt groups"},
	{"JobSpec", "name labels priority priority_zero gang each gpu_type shm_bytes topology node_selector command workdir " +
		"env time_limit_ms prepare_timeout_ms stop restart lost_grace_ms stop_when_lost_ms limits_required nodes exclude " +
		"disk_bytes submit_dir script network begin_unix_ms deadline_unix_ms launcher " +
		"warn checkpoint after array element not_preemptible " +
		"checkpoint_ms secrets title progress hang"},
	{"SubmitJobRequest", "id min_cpu min_memory min_gpu"},
	{"ReadScript", "principal digest"},
	{"ReadSecrets", "job attempt"},
	{"OwnJob", "job attempt rank"},
	{"Cancel", "principal job reason"},
	{"Hold", "principal job reason"},
	{"Requeue", "principal job reason run checkpoint"},
	{"Checkpoint", "principal job reason"},
	{"Update", "principal job reason priority/set_priority time_limit_ms/set_time_limit begin_unix_ms/set_begin " +
		"deadline_unix_ms/set_deadline " +
		"array_most/set_array_most exempt groups"},
	{"ChangeNode", "principal node reason deadline_ms at_unix_ms"},
	{"ApplyQueues", "principal queues revision dry_run"},
	{"GetQueues", "principal"},
	{"GetEfficiency", "principal kind days"},
	{"GetJob", "principal job attempts"},
	{"ListJobs", "principal owner queue phases labels after limit name array elements"},
	{"ListNodes", "principal after limit node"},
	{"ExplainJob", "principal job spec"},
	{"History", "principal owner queue name states labels since_unix_ms until_unix_ms after limit ranks"},
	{"Watch", "principal jobs ids owner queue labels present after reasons books array progress"},
	{"ReadLogs", "principal job ranks follow previous tail_bytes attempt from tail_lines times"},
	{"ReadPast", "principal at_unix_ms until_unix_ms step_ms"},
	{"ExecIn", "principal job rank command env terminal stdin stdin_ends signal rows columns helper attempt host"},
	{"ExecOut", "session begun stdout stderr end stdout_ends"},
	{"CreatePass", "hash role name ttl_ms"},
	{"RevokePass", "id"},
}

// coveredOf returns the covered fields of a message, each with the field b of its entry, or "".
func coveredOf(m protoreflect.MessageDescriptor) map[string]string {
	out := map[string]string{}
	for _, c := range covered {
		if c.message == string(m.Name()) {
			for _, word := range strings.Fields(c.fields) {
				field, with, _ := strings.Cut(word, "/")
				out[field] = with
			}
		}
	}
	return out
}

// lineFor reports whether needs has a line for this field of a call, and whether it has one for a field inside it.
func lineFor(call, path string) (own, inside bool) {
	for _, n := range needs {
		if n.call == call && n.field != "" {
			own = own || n.field == path
			inside = inside || strings.HasPrefix(n.field, path+".")
		}
	}
	return own, inside
}

// requestFields walks over the fields of a request. It calls bad with each field that has no decision or two, and
// records in used which entries of the table it needed.
func requestFields(call, path string, m protoreflect.MessageDescriptor, used map[string]bool, bad func(string)) {
	table := coveredOf(m)
	for i := range m.Fields().Len() {
		f := m.Fields().Get(i)
		name := string(f.Name())
		own, inside := lineFor(call, path+name)
		with, has := table[name]
		if has {
			used[string(m.Name())+"."+name] = true
		}
		switch {
		case inside:
			requestFields(call, path+name+".", f.Message(), used, bad)
		case own && has:
			bad(path + name + " has a line of needs and is covered as well")
		case !own && !has:
			bad(path + name + " has neither a line of needs nor a place in covered")
		case with != "":
			if decided, _ := lineFor(call, path+with); !decided {
				bad(path + name + " is read with " + with + ", and no line of needs is for that")
			}
		}
	}
}

// TestEveryRequestFieldIsDecided fails for a field of a request that is neither in needs nor covered. A field
// without a decision would be refused for every role.
func TestEveryRequestFieldIsDecided(t *testing.T) {
	used := map[string]bool{}
	for _, s := range services() {
		for i := range s.Methods().Len() {
			m := s.Methods().Get(i)
			call := "/" + string(s.FullName()) + "/" + string(m.Name())
			requestFields(call, "", m.Input(), used, func(what string) { t.Errorf("%s: %s", call, what) })
		}
	}
	for _, c := range covered {
		fields := strings.Fields(c.fields)
		for _, word := range fields {
			if field, _, _ := strings.Cut(word, "/"); !used[c.message+"."+field] {
				t.Errorf("covered: no request has the field %s.%s", c.message, field)
			}
		}
		slices.Sort(fields)
		if len(slices.Compact(fields)) != len(strings.Fields(c.fields)) {
			t.Errorf("covered: a field of %s is there twice", c.message)
		}
	}
}
