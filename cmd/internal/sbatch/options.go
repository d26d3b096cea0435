package sbatch

import (
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yi-json/synapse/messages/plain"
)

// This file lists the options that are common to synapse-cli and synapse-submit, with the effect of each.

// Setter stores the value of an option in B, the options of a command.
type Setter[B any] = func(b *B, value string) error

// Option is one of Slurm's options.
type Option[B any] struct {
	Long, Short string
	Bare        string // its default value; empty: a value is required
	Set         Setter[B]
}

// Options returns the options of sbatch whose effect needs no other job and no node. The complete list is in package
// slurm of synapse-cli.
func Options() []Option[Plain] {
	return []Option[Plain]{
		{"job-name", "J", "", Text(func(b *Plain) *string { return &b.Name })},
		{"partition", "p", "", one(func(b *Plain) *string { return &b.Partition })},
		{"account", "A", "", Text(func(b *Plain) *string { return &b.Account })},
		{"comment", "", "", kept(func(b *Plain) *string { return &b.Comment })},
		{"wckey", "", "", kept(func(b *Plain) *string { return &b.WCKey })},
		{"qos", "q", "", setQOS},
		{"chdir", "D", "", Text(func(b *Plain) *string { return &b.Chdir })},
		{"output", "o", "", Text(func(b *Plain) *string { return &b.Output })},
		{"error", "e", "", Text(func(b *Plain) *string { return &b.Errors })},
		{"open-mode", "", "", SetOpenMode},
		{"input", "i", "", setInput},
		{"nodes", "N", "", setNodes},
		{"ntasks", "n", "", Count(func(b *Plain) *int64 { return &b.Tasks })},
		{"ntasks-per-node", "", "", Count(func(b *Plain) *int64 { return &b.TasksPerNode })},
		{"cpus-per-task", "c", "", Count(func(b *Plain) *int64 { return &b.CPUsPerTask })},
		{"cpus-per-gpu", "", "", Count(func(b *Plain) *int64 { return &b.CPUsPerGPU })},
		{"gpus", "G", "", devices(func(b *Plain) *int64 { return &b.GPUs })},
		{"gpus-per-node", "", "", devices(func(b *Plain) *int64 { return &b.GPUsPerNode })},
		{"gpus-per-task", "", "", devices(func(b *Plain) *int64 { return &b.GPUsPerTask })},
		{"gres", "", "", setGres},
		{"mem", "", "", setMemory},
		{"mem-per-cpu", "", "", memory(func(b *Plain) *int64 { return &b.MemoryPerCPU })},
		{"mem-per-gpu", "", "", memory(func(b *Plain) *int64 { return &b.MemoryPerGPU })},
		{"time", "t", "", setTime},
		{"priority", "", "", setPriority(1)},
		{"nice", "", "100", setPriority(-1)},
		{"export", "", "", Text(func(b *Plain) *string { return &b.Export })},
		{"wrap", "", "", Text(func(b *Plain) *string { return &b.Wrap })},
		{"hold", "H", "yes", Yes(func(b *Plain) *bool { return &b.Hold })},
		{"parsable", "", "yes", Yes(func(b *Plain) *bool { return &b.Parsable })},
		// These options request the default.
		{"requeue", "", "yes", setRequeue(false)}, {"no-requeue", "", "yes", setRequeue(true)},
		{"time-min", "", "", setTimeMin},
		{"oversubscribe", "s", "yes", None}, {"quiet", "Q", "yes", None}, {"verbose", "v", "yes", None},
	}
}

// None accepts any value without an effect.
func None(*Plain, string) error { return nil }

// Text returns the setter of an option with a text.
func Text[B any](to func(*B) *string) Setter[B] {
	return func(b *B, value string) error {
		if value == "" {
			return Refuse("give it a value, or omit it", "is empty")
		}
		*to(b) = value
		return nil
	}
}

// kept stores a text as a label of the job, and cuts it to the maximum length of a label.
func kept(to func(*Plain) *string) Setter[Plain] {
	return func(b *Plain, value string) error {
		for len(value) > plain.MaxValueBytes {
			_, size := utf8.DecodeLastRuneInString(value)
			value = value[:len(value)-size]
		}
		*to(b) = value
		return nil
	}
}

// one accepts one word of a list.
func one(to func(*Plain) *string) Setter[Plain] {
	return func(b *Plain, value string) error {
		if strings.Contains(value, ",") {
			return Refuse("name one queue", "%s: several queues are not supported", value)
		}
		return Text(to)(b, value)
	}
}

// Yes returns the setter of a switch.
func Yes[B any](to func(*B) *bool) Setter[B] {
	return func(b *B, _ string) error {
		*to(b) = true
		return nil
	}
}

// Count returns the setter of an option with a number from 1.
func Count[B any](to func(*B) *int64) Setter[B] {
	return func(b *B, value string) (err error) {
		*to(b), err = Number(value)
		return err
	}
}

// Number parses a number from 1.
func Number(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return 0, Refuse("", "%q is not a number from 1", value)
	}
	return n, nil
}

// setNodes accepts one size, because a gang has a fixed size.
func setNodes(b *Plain, value string) (err error) {
	least, most, ranged := strings.Cut(value, "-")
	if ranged && least != most {
		return Refuse("use one number", "%s: ranges are not supported, because a gang has a fixed size", value)
	}
	b.Nodes, err = Number(least)
	return err
}

// devices accepts [type:]number.
func devices(to func(*Plain) *int64) Setter[Plain] {
	return func(b *Plain, value string) (err error) {
		kind, n, typed := strings.Cut(value, ":")
		if !typed {
			kind, n = "", value
		}
		if _, failed := Number(value); !typed && failed != nil && value != "0" {
			kind, n = value, "1"
		}
		if strings.Contains(n, ",") || strings.Contains(kind, ",") {
			return Refuse("use one GPU type", "%s: several GPU types are not supported", value)
		}
		if *to(b), err = Number(n); n == "0" {
			*to(b), err = 0, nil
		}
		if kind != "" {
			b.GPUType = strings.ToLower(kind)
		}
		return err
	}
}

// setGres accepts only GPUs per node.
func setGres(b *Plain, value string) error {
	if value == "none" {
		return nil
	}
	rest, is := strings.CutPrefix(value, "gpu")
	if !is || strings.Contains(value, ",") || rest != "" && rest[0] != ':' {
		return Refuse("use gpu[:type]:number", "%s", value)
	}
	return devices(func(b *Plain) *int64 { return &b.GPUsPerNode })(b, orDefault(strings.TrimPrefix(rest, ":"), "1"))
}

// Size parses an amount of memory: mebibytes if it has no letter.
func Size(value string) (int64, error) {
	shift := int64(20)
	digits := value
	if n := len(value); n > 1 && value[n-1]&^0x20 == 'B' && strings.IndexByte("KMGT", value[n-2]&^0x20) >= 0 {
		value = value[:n-1] // 4GB means 4G
	}
	if value != "" {
		digits = value
		if at := strings.IndexByte("KMGT", value[len(value)-1]&^0x20); at >= 0 {
			shift, digits = int64(10+10*at), value[:len(value)-1]
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n < 0 || n > math.MaxInt64>>shift {
		return 0, Refuse("write 4000, 16G or 1T", "%q is not an amount of memory", value)
	}
	return n << shift, nil
}

func memory(to func(*Plain) *int64) Setter[Plain] {
	return func(b *Plain, value string) (err error) {
		*to(b), err = Size(value)
		return err
	}
}

func setMemory(b *Plain, value string) (err error) {
	b.Memory, err = Size(value)
	b.WholeMemory = err == nil && b.Memory == 0
	return err
}

func setTime(b *Plain, value string) (err error) {
	b.TimeLimitMs, err = ParseTime(value)
	return err
}

// ParseTime parses Slurm's durations: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes, days-hours:minutes:seconds. 0 means unlimited.
func ParseTime(value string) (int64, error) {
	wrong := Refuse("write 30, 30:00, 2:00:00, 1-12 or 1-12:00:00", "%q is not a duration", value)
	switch strings.ToUpper(value) {
	case "UNLIMITED", "INFINITE", "-1":
		return 0, nil
	}
	days, rest, dated := strings.Cut(value, "-")
	if !dated {
		days, rest = "0", value
	}
	parts := strings.Split(rest, ":")
	units := map[int][]int64{1: {60}, 2: {60, 1}, 3: {3600, 60, 1}}[len(parts)]
	if dated {
		units = []int64{3600, 60, 1}
	}
	if len(parts) > 3 {
		return 0, wrong
	}
	seconds := int64(0)
	for i, part := range append([]string{days}, parts...) {
		n, err := strconv.ParseInt(part, 10, 32)
		if err != nil || n < 0 {
			return 0, wrong
		}
		if unit := int64(86400); i > 0 {
			seconds += n * units[i-1]
		} else {
			seconds += n * unit
		}
	}
	return max(seconds, 1) * 1000, nil
}

// SetOpenMode accepts append or truncate.
func SetOpenMode(b *Plain, value string) error {
	if value != "append" && value != "truncate" {
		return Refuse("use append or truncate", "%q", value)
	}
	b.Appends = value == "append"
	return nil
}

func setInput(_ *Plain, value string) error {
	if value != "/dev/null" && value != "none" {
		return Refuse("read the file in the script", "%s: standard input of a script is always empty", value)
	}
	return nil
}

// setQOS keeps the name of a quality of service, which all listings show. The limits of jobs belong to their queues, so
// only a number has an effect: it is the priority.
func setQOS(b *Plain, value string) error {
	if err := kept(func(b *Plain) *string { return &b.QOS })(b, value); err != nil || value == "" {
		return err
	}
	if _, err := strconv.ParseInt(value, 10, 64); err == nil {
		return setPriority(1)(b, value)
	}
	return nil
}

func setPriority(sign int32) Setter[Plain] {
	return func(b *Plain, value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n > plain.MaxPriority || n < -plain.MaxPriority {
			return Refuse("use a number from -1000000 to 1000000", "%q is not a priority", value)
		}
		b.Priority = sign * int32(n)
		return nil
	}
}

// setRequeue uses the last of --requeue and --no-requeue. Without either, a job whose node is lost runs again.
func setRequeue(never bool) Setter[Plain] {
	return func(b *Plain, _ string) error {
		b.Never = never
		return nil
	}
}

// setTimeMin accepts a minimum time limit. The job always gets all of --time, so the minimum is met.
func setTimeMin(_ *Plain, value string) error {
	_, err := ParseTime(value)
	return err
}
