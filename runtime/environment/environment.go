// Package environment computes a task's environment variables: the identity of the task, the other tasks and the
// rendezvous, in the variables of each framework. It is pure: the same task always gets the same environment.
// launchers.go chooses the variables by the job's launcher.
package environment

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/yi-json/synapse/messages"
)

// Subject is the task whose environment is computed.
type Subject struct {
	Start *messages.StartTask
	// Gpus lists the granted devices as the node announced them, in the order of the grant.
	Gpus []*messages.Gpu
	// Hostfile is the path of the list of nodes, as the task sees it.
	Hostfile string
	// Notice is the path of the notice before the task's end, if the job requests one.
	Notice string
	// Progress is the path of the file in which the task may report its progress.
	Progress string
	// Kubeflow is the endpoint for the task's progress; nil: the task has none.
	Kubeflow *Kubeflow
	// Helper is the path of synapse-exec; empty: the task has none.
	Helper string
}

// variable is one environment variable.
type variable struct{ name, value string }

// Of returns the environment of a task, in a fixed order. The user's variables have priority over the frameworks'
// variables. They never replace the task's identity and its devices, because those keep gangs apart.
func Of(s Subject) []string {
	m := newMeeting(s)
	ours := append(m.identity(), devices(s)...)
	var users []variable
	for _, e := range s.Start.GetSpec().GetEnv() {
		if !messages.ReservedEnv(e.GetName()) {
			users = append(users, variable{e.GetName(), e.GetValue()})
		}
	}
	return Merge(lines(append(m.spoken(), s.Kubeflow.variables()...)), lines(s.Kubeflow.direct(users)), lines(ours))
}

func lines(variables []variable) []string {
	out := make([]string, len(variables))
	for i, v := range variables {
		out[i] = v.name + "=" + v.value
	}
	return out
}

// Merge joins environments. A later value replaces an earlier one of the same name, because programs read the first one
// that they find.
func Merge(parts ...[]string) []string {
	at := map[string]int{}
	var merged []string
	for _, part := range parts {
		for _, line := range part {
			name, _, _ := strings.Cut(line, "=")
			if i, known := at[name]; known {
				merged[i] = line
				continue
			}
			at[name] = len(merged)
			merged = append(merged, line)
		}
	}
	return merged
}

// devices returns the variables through which each vendor's libraries find their GPUs. A task without GPUs gets
// variables that hide all GPUs of the node; without the variables it would see all. A declared device has an unknown
// vendor and no identity that a driver knows, so each vendor's variable contains its number.
func devices(s Subject) []variable {
	var all, nvidia, amd, numbers []string
	for _, g := range s.Gpus {
		name := g.GetId()
		if g.GetDeclared() {
			name = strconv.Itoa(int(g.GetMinor()))
		}
		all = append(all, name)
		if isAMD := isAMDs(g.GetId()); isAMD || g.GetDeclared() {
			numbers = append(numbers, strconv.Itoa(len(amd))) // HIP counts the devices that ROCr shows
			amd = append(amd, name)
			if isAMD {
				continue
			}
		}
		nvidia = append(nvidia, name)
	}
	cuda, container := strings.Join(nvidia, ","), strings.Join(nvidia, ",")
	if container == "" {
		container = "void" // NVIDIA's container runtime ignores an empty value
	}
	if cuda == "" {
		cuda = strings.Join(numbers, ",") // programs for CUDA read this variable on AMD's devices too
	}
	return []variable{
		{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"},
		{"CUDA_VISIBLE_DEVICES", cuda},
		{"NVIDIA_VISIBLE_DEVICES", container},
		{"ROCR_VISIBLE_DEVICES", strings.Join(amd, ",")},
		{"HIP_VISIBLE_DEVICES", strings.Join(numbers, ",")},
		{"SYNAPSE_GPUS", strings.Join(all, ",")},
	}
}

// isAMDs reports whether an identity belongs to an AMD device. ROCr's identities have sixteen hexadecimal digits, and
// NVIDIA's have the five groups of a UUID.
func isAMDs(id string) bool {
	digits, found := strings.CutPrefix(id, "GPU-")
	return found && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// Hostfile returns the list of nodes in the format of MPI and DeepSpeed. Each node appears once, in the order of ranks,
// with one slot per process that should run there. A task counts as one process per GPU, and at least as one.
func Hostfile(r *messages.Rendezvous, grant *messages.Grant) string {
	each := processes(grant)
	var text strings.Builder
	for _, h := range hosts(r) {
		fmt.Fprintf(&text, "%s slots=%d\n", h.address, h.tasks*each)
	}
	return text.String()
}

// HydraSuffix is the suffix of the hostfile for MPICH's launcher, which cannot read `slots=`.
const HydraSuffix = ".mpich"

// HydraHostfile returns the same list in the format of MPICH's launcher.
func HydraHostfile(r *messages.Rendezvous, grant *messages.Grant) string {
	return strings.ReplaceAll(Hostfile(r, grant), " slots=", ":")
}

// Hosts returns the nodes' addresses and names in the format of /etc/hosts.
func Hosts(r *messages.Rendezvous) string {
	var text strings.Builder
	for _, h := range hosts(r) {
		if h.address != h.node {
			fmt.Fprintf(&text, "%s %s\n", h.address, h.node)
		}
	}
	return text.String()
}

// processes returns the number of processes that a task should run.
func processes(grant *messages.Grant) int {
	if milli := grant.GetAmount().GetMilliGpu(); milli > 0 {
		return int((milli + 999) / 1000)
	}
	return max(1, len(grant.GetGpus()))
}
