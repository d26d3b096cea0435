// Package environment computes a task's environment variables: which task it is, which the others are, and where they
// meet, in the variables of each framework. It is pure: the same task has the same environment wherever this is
// computed. launchers.go decides which variables there are, by the launcher that the job names.
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
	// Gpus are the granted devices, as the machine announced them, in the order of the grant.
	Gpus []*messages.Gpu
	// Hostfile is where the task itself will see the list of machines.
	Hostfile string
	// Notice is where it will see when it will be stopped, if its job wants to be told.
	Notice string
	// Progress is where it will see the file in which it may report its progress.
	Progress string
	// Helper is where it will see synapse-exec; empty: it has none.
	Helper string
}

// variable is one environment variable.
type variable struct{ name, value string }

// Of is the environment of a task, in a fixed order. What the user sets wins
// over the frameworks' variables, but never over the task's identity and its devices: those keep gangs apart.
func Of(s Subject) []string {
	m := newMeeting(s)
	ours := append(m.identity(), devices(s)...)
	var users []variable
	for _, e := range s.Start.GetSpec().GetEnv() {
		if !messages.ReservedEnv(e.GetName()) {
			users = append(users, variable{e.GetName(), e.GetValue()})
		}
	}
	return Merge(lines(m.spoken()), lines(users), lines(ours))
}

func lines(variables []variable) []string {
	out := make([]string, len(variables))
	for i, v := range variables {
		out[i] = v.name + "=" + v.value
	}
	return out
}

// Merge joins environments; a later value replaces an earlier one of the same name, because programs read the first
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

// devices are the variables through which each vendor's libraries find their GPUs. A task without GPUs sees none,
// whatever the machine has: without these variables it would see all. A declared device has no identity that a driver
// knows, and its vendor is unknown, so each vendor's variable has its number.
func devices(s Subject) []variable {
	var all, nvidia, amd, numbers []string
	for _, g := range s.Gpus {
		name := g.GetId()
		if g.GetDeclared() {
			name = strconv.Itoa(int(g.GetMinor()))
		}
		all = append(all, name)
		if isAMD := isAMDs(g.GetId()); isAMD || g.GetDeclared() {
			numbers = append(numbers, strconv.Itoa(len(amd))) // HIP counts among those that ROCr shows it
			amd = append(amd, name)
			if isAMD {
				continue
			}
		}
		nvidia = append(nvidia, name)
	}
	cuda, container := strings.Join(nvidia, ","), strings.Join(nvidia, ",")
	if container == "" {
		container = "void" // to NVIDIA's container runtime an empty value means nothing at all
	}
	if cuda == "" {
		cuda = strings.Join(numbers, ",") // programs written for CUDA look here on AMD's devices, too
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

// isAMDs reports whether an identity is that of an AMD device: ROCr's are sixteen hexadecimal digits, NVIDIA's have the
// five groups of a UUID.
func isAMDs(id string) bool {
	digits, found := strings.CutPrefix(id, "GPU-")
	return found && len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// Hostfile is the list of machines as MPI and DeepSpeed read it: each once, in the order of ranks, with one slot for
// each process that should run there. A task counts one process for each of its GPUs, and at least one.
func Hostfile(r *messages.Rendezvous, grant *messages.Grant) string {
	each := processes(grant)
	var text strings.Builder
	for _, h := range hosts(r) {
		fmt.Fprintf(&text, "%s slots=%d\n", h.address, h.tasks*each)
	}
	return text.String()
}

// HydraSuffix ends the name of the list that MPICH's launcher reads, beside the other one: it ends at `slots=`.
const HydraSuffix = ".mpich"

// HydraHostfile is the same list as MPICH's launcher reads it.
func HydraHostfile(r *messages.Rendezvous, grant *messages.Grant) string {
	return strings.ReplaceAll(Hostfile(r, grant), " slots=", ":")
}

// Hosts are the machines' names with their addresses, as /etc/hosts has them.
func Hosts(r *messages.Rendezvous) string {
	var text strings.Builder
	for _, h := range hosts(r) {
		if h.address != h.node {
			fmt.Fprintf(&text, "%s %s\n", h.address, h.node)
		}
	}
	return text.String()
}

// processes is how many processes a task should run.
func processes(grant *messages.Grant) int {
	if milli := grant.GetAmount().GetMilliGpu(); milli > 0 {
		return int((milli + 999) / 1000)
	}
	return max(1, len(grant.GetGpus()))
}
