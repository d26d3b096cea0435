package slurm

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/yi-json/synapse/clients/go/jobfile"
	"github.com/yi-json/synapse/messages"
)

// This file lists the options of sbatch, with the effect of each or the reason why it is not supported.

func options() []option {
	all := []option{
		{"job-name", "J", "", text(func(b *Batch) *string { return &b.name })},
		{"partition", "p", "", one(func(b *Batch) *string { return &b.partition })},
		{"account", "A", "", text(func(b *Batch) *string { return &b.account })},
		{"comment", "", "", kept(func(b *Batch) *string { return &b.comment })},
		{"wckey", "", "", kept(func(b *Batch) *string { return &b.wckey })},
		{"qos", "q", "", setQOS},
		{"chdir", "D", "", text(func(b *Batch) *string { return &b.chdir })},
		{"output", "o", "", text(func(b *Batch) *string { return &b.output })},
		{"error", "e", "", text(func(b *Batch) *string { return &b.errors })},
		{"open-mode", "", "", setOpenMode},
		{"input", "i", "", setInput},
		{"nodes", "N", "", setNodes},
		{"ntasks", "n", "", count(func(b *Batch) *int64 { return &b.tasks })},
		{"ntasks-per-node", "", "", count(func(b *Batch) *int64 { return &b.tasksPerNode })},
		{"cpus-per-task", "c", "", count(func(b *Batch) *int64 { return &b.cpusPerTask })},
		{"cpus-per-gpu", "", "", count(func(b *Batch) *int64 { return &b.cpusPerGPU })},
		{"gpus", "G", "", devices(func(b *Batch) *int64 { return &b.gpus })},
		{"gpus-per-node", "", "", devices(func(b *Batch) *int64 { return &b.gpusPerNode })},
		{"gpus-per-task", "", "", devices(func(b *Batch) *int64 { return &b.gpusPerTask })},
		{"gres", "", "", setGres},
		{"mem", "", "", setMemory},
		{"mem-per-cpu", "", "", memory(func(b *Batch) *int64 { return &b.memoryPerCPU })},
		{"mem-per-gpu", "", "", memory(func(b *Batch) *int64 { return &b.memoryPerGPU })},
		{"time", "t", "", setTime},
		{"begin", "b", "", setBegin},
		{"array", "a", "", setArray},
		{"dependency", "d", "", setDependency},
		{"constraint", "C", "", setConstraint},
		{"nodelist", "w", "", hosts(func(b *Batch) *[]string { return &b.nodelist })},
		{"exclude", "x", "", hosts(func(b *Batch) *[]string { return &b.exclude })},
		{"exclusive", "", "node", setExclusive},
		{"priority", "", "", setPriority(1)},
		{"nice", "", "100", setPriority(-1)},
		{"signal", "", "", setSignal},
		{"switches", "", "", setSwitches},
		{"export", "", "", text(func(b *Batch) *string { return &b.export })},
		{"wrap", "", "", text(func(b *Batch) *string { return &b.Wrap })},
		{"hold", "H", "yes", yes(func(b *Batch) *bool { return &b.Hold })},
		{"parsable", "", "yes", yes(func(b *Batch) *bool { return &b.Parsable })},
		{"wait", "W", "yes", yes(func(b *Batch) *bool { return &b.Wait })},
		{"test-only", "", "yes", yes(func(b *Batch) *bool { return &b.TestOnly })},
		// These options request the default.
		{"requeue", "", "yes", setRequeue(false)}, {"no-requeue", "", "yes", setRequeue(true)},
		{"time-min", "", "", setTimeMin},
		{"oversubscribe", "s", "yes", so}, {"quiet", "Q", "yes", so}, {"verbose", "v", "yes", so},
		{"kill-on-invalid-dep", "", "", exactly("yes", "a job that can never start is cancelled")},
	}
	all = append(all, containerOptions()...)
	for name, why := range refused { //order: each flag is independent
		all = append(all, ofTable(name, never(why)))
	}
	for _, name := range passed {
		o := ofTable(name, nil)
		o.set = pass("--" + o.long)
		all = append(all, o)
	}
	return all
}

// ofTable returns an option by a name in the tables below. The letter is after a comma. A question mark means that
// no value is needed.
func ofTable(name string, set setter) option {
	short, bare := "", ""
	if long, letter, has := strings.Cut(name, ","); has {
		name, short = long, letter
	}
	if long, is := strings.CutSuffix(name, "?"); is {
		name, bare = long, "yes"
	}
	return option{name, short, bare, set}
}

// passed lists options without an effect here. Programs that write scripts for any cluster use them, so each is
// accepted with a warning.
var passed = []string{
	"mail-type", "mail-user", "clusters,M", "get-user-env?", "extra", "mcs-label", "hint",
	"distribution,m", "contiguous?", "spread-job?", "use-min-nodes?", "mem-bind", "cpu-freq", "gpu-freq", "gres-flags",
	"ntasks-per-socket", "ntasks-per-core", "sockets-per-node", "cores-per-socket", "threads-per-core",
	"extra-node-info,B", "profile", "acctg-freq", "propagate", "delay-boot", "power", "resv-ports", "stepmgr?",
	"ignore-pbs?", "cluster-constraint",
}

// pass accepts an option, and warns that it has no effect.
func pass(name string) setter {
	return func(b *Batch, value string) error {
		if name == "--mail-type" && strings.EqualFold(value, "NONE") {
			return nil
		}
		if warning := name + " has no effect on this cluster"; !slices.Contains(b.warnings, warning) {
			b.warnings = append(b.warnings, warning)
		}
		return nil
	}
}

// refused lists unsupported options, with an alternative for each.
var refused = map[string]string{
	"reservation":    "reservations are not supported: use --constraint=KEY=VALUE for a labelled node",
	"licenses,L":     "licenses are not supported",
	"bb":             "burst buffers are not supported",
	"bbf":            "burst buffers are not supported",
	"no-kill?,k":     "a gang ends if it loses a node",
	"overcommit?,O":  "each task has the cores that it requests",
	"deadline":       "deadlines are not supported; --time limits the run time",
	"ntasks-per-gpu": "use --gpus-per-task",
	"core-spec,S":    "reserved cores are not supported",
	"thread-spec":    "reserved threads are not supported",
	"mincpus":        "use --cpus-per-task",
	"gpu-bind":       "a step's tasks see --gpus-per-task devices each, or all of the node",
	"tmp":            "use disk in a job file",
	"tres-per-task":  "use --gpus-per-task, --cpus-per-task or --mem",
	"tres-bind":      "devices cannot be bound to tasks",
	"export-file":    "use --export",
	"uid":            "a job belongs to its submitter",
	"gid":            "a job belongs to its submitter",
	"container":      "use --container-image",
	"container-id":   "use `image` in a job file: synapse-cli submit",
	"reboot?":        "nodes cannot be rebooted",
	"network":        "use `network` in a job file: synapse-cli submit",
	"batch":          "the script runs on the first of the nodes",
	"prefer":         "use --constraint",
	"segment":        "use topology in a job file",
	"oom-kill-step":  "a task that exceeds its memory ends its gang",
	"burst-buffer":   "burst buffers are not supported",
}

func never(why string) setter {
	return func(*Batch, string) error { return refuse(why, "is not supported") }
}
func so(*Batch, string) error { return nil }

func exactly(only, why string) setter {
	return func(_ *Batch, value string) error {
		if !strings.EqualFold(value, only) {
			return refuse(why, "%s is not supported", value)
		}
		return nil
	}
}

func text(to func(*Batch) *string) setter {
	return func(b *Batch, value string) error {
		if value == "" {
			return refuse("give it a value, or omit it", "is empty")
		}
		*to(b) = value
		return nil
	}
}

// kept stores a text as a label of the job, and cuts it to the maximum length of a label.
func kept(to func(*Batch) *string) setter {
	return func(b *Batch, value string) error {
		for len(value) > messages.MaxValueBytes {
			_, size := utf8.DecodeLastRuneInString(value)
			value = value[:len(value)-size]
		}
		*to(b) = value
		return nil
	}
}

// setRequeue uses the last of --requeue and --no-requeue. Without either, a job whose node is lost runs again.
func setRequeue(never bool) setter {
	return func(b *Batch, _ string) error {
		b.never = never
		return nil
	}
}

// setTimeMin accepts a minimum time limit. The job always gets all of --time, so the minimum is met.
func setTimeMin(_ *Batch, value string) error {
	_, err := ParseTime(value)
	return err
}

// one accepts one word of a list.
func one(to func(*Batch) *string) setter {
	return func(b *Batch, value string) error {
		if strings.Contains(value, ",") {
			return refuse("name one queue", "%s: several queues are not supported", value)
		}
		return text(to)(b, value)
	}
}

func yes(to func(*Batch) *bool) setter {
	return func(b *Batch, _ string) error {
		*to(b) = true
		return nil
	}
}

func count(to func(*Batch) *int64) setter {
	return func(b *Batch, value string) (err error) {
		*to(b), err = number(value)
		return err
	}
}

func number(value string) (int64, error) {
	n, err := strconv.ParseInt(value, 10, 32)
	if err != nil || n < 1 {
		return 0, refuse("", "%q is not a number from 1", value)
	}
	return n, nil
}

// setNodes accepts one size, because a gang has a fixed size.
func setNodes(b *Batch, value string) (err error) {
	least, most, ranged := strings.Cut(value, "-")
	if ranged && least != most {
		return refuse("use one number", "%s: ranges are not supported, because a gang has a fixed size", value)
	}
	b.nodes, err = number(least)
	return err
}

// devices accepts [type:]number.
func devices(to func(*Batch) *int64) setter {
	return func(b *Batch, value string) (err error) {
		kind, n, typed := strings.Cut(value, ":")
		if !typed {
			kind, n = "", value
		}
		if _, failed := number(value); !typed && failed != nil && value != "0" {
			kind, n = value, "1"
		}
		if strings.Contains(n, ",") || strings.Contains(kind, ",") {
			return refuse("use one GPU type", "%s: several GPU types are not supported", value)
		}
		if *to(b), err = number(n); n == "0" {
			*to(b), err = 0, nil
		}
		if kind != "" {
			b.gpuType = strings.ToLower(kind)
		}
		return err
	}
}

// setGres accepts only GPUs per node.
func setGres(b *Batch, value string) error {
	if value == "none" {
		return nil
	}
	rest, is := strings.CutPrefix(value, "gpu")
	if !is || strings.Contains(value, ",") || rest != "" && rest[0] != ':' {
		return refuse("use gpu[:type]:number", "%s", value)
	}
	return devices(func(b *Batch) *int64 { return &b.gpusPerNode })(b, orDefault(strings.TrimPrefix(rest, ":"), "1"))
}

// size parses an amount of memory: mebibytes if it has no letter.
func size(value string) (int64, error) {
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
		return 0, refuse("write 4000, 16G or 1T", "%q is not an amount of memory", value)
	}
	return n << shift, nil
}

func memory(to func(*Batch) *int64) setter {
	return func(b *Batch, value string) (err error) {
		*to(b), err = size(value)
		return err
	}
}

func setMemory(b *Batch, value string) (err error) {
	b.memory, err = size(value)
	b.wholeMemory = err == nil && b.memory == 0
	return err
}

func setTime(b *Batch, value string) (err error) {
	b.timeLimitMs, err = ParseTime(value)
	return err
}

// ParseTime parses Slurm's durations: minutes, minutes:seconds, hours:minutes:seconds, days-hours,
// days-hours:minutes, days-hours:minutes:seconds. 0 means unlimited.
func ParseTime(value string) (int64, error) {
	wrong := refuse("write 30, 30:00, 2:00:00, 1-12 or 1-12:00:00", "%q is not a duration", value)
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

func setOpenMode(b *Batch, value string) error {
	if value != "append" && value != "truncate" {
		return refuse("use append or truncate", "%q", value)
	}
	b.appends = value == "append"
	return nil
}

func setInput(_ *Batch, value string) error {
	if value != "/dev/null" && value != "none" {
		return refuse("read the file in the script", "%s: standard input of a script is always empty", value)
	}
	return nil
}

func setQOS(b *Batch, value string) error {
	if b.qos = value; value == "normal" {
		return nil
	}
	if setPriority(1)(b, value) != nil {
		return refuse("use a number for the priority, or --partition for queue limits",
			"%s: named QOS values are not supported",
			value)
	}
	return nil
}

func setPriority(sign int32) setter {
	return func(b *Batch, value string) error {
		n, err := strconv.ParseInt(value, 10, 32)
		if err != nil || n > messages.MaxPriority || n < -messages.MaxPriority {
			return refuse("use a number from -1000000 to 1000000", "%q is not a priority", value)
		}
		b.priority = sign * int32(n)
		return nil
	}
}

// setConstraint accepts KEY=VALUE, several joined by &, or a GPU type.
func setConstraint(b *Batch, value string) error {
	if strings.ContainsAny(value, "|*()[]!") {
		return refuse("combine labels with &", "%s: only & is supported", value)
	}
	for part := range strings.SplitSeq(strings.ReplaceAll(value, ",", "&"), "&") {
		key, is, has := strings.Cut(part, "=")
		switch {
		case has && key != "" && is != "":
			b.selector = append(b.selector, &messages.Label{Key: key, Value: is})
		case part == "" || has || b.gpuType != "" && b.gpuType != strings.ToLower(part):
			return refuse("write KEY=VALUE, or a GPU type", "%s", value)
		default:
			b.gpuType = strings.ToLower(part)
		}
	}
	return nil
}

func hosts(to func(*Batch) *[]string) setter {
	return func(b *Batch, value string) (err error) {
		*to(b), err = Hostnames(value)
		return err
	}
}

func setExclusive(b *Batch, value string) error {
	if value != "node" {
		return refuse("use --exclusive without a value", "%s: only complete nodes can be exclusive", value)
	}
	b.exclusive = true
	return nil
}

// setSignal accepts [B:]SIGNAL[@seconds].
func setSignal(b *Batch, value string) error {
	name := strings.TrimPrefix(value, "B:")
	if strings.HasPrefix(name, "R:") {
		return refuse("", "%s: reservations are not supported", value)
	}
	name, seconds, timed := strings.Cut(name, "@")
	if !timed {
		seconds = "60"
	}
	warn, problem := jobfile.ParseWarn(name + "@" + seconds + "s")
	if problem != nil {
		return refuse(problem.Hint, "%s", problem.Text)
	}
	b.warn = warn
	return nil
}

// setSwitches accepts one switch, which means a rack.
func setSwitches(b *Batch, value string) error {
	n, patience, waits := strings.Cut(value, "@")
	if n != "1" {
		return refuse("use topology in a job file", "%s: only one switch (a rack) is supported", value)
	}
	if b.topology = (&messages.TopologySpec{Required: "rack"}); waits {
		ms, err := ParseTime(patience)
		if err != nil {
			return err
		}
		b.topology = &messages.TopologySpec{Preferred: "rack", PatienceMs: ms}
	}
	return nil
}

func setArray(b *Batch, value string) error {
	a, problem := jobfile.ParseArray(value)
	if problem != nil {
		return refuse(problem.Hint, "%s", problem.Text)
	}
	b.array = a
	return nil
}
