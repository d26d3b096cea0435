package jobfile

import (
	"fmt"
	"math"
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/yi-json/synapse/messages/spelling"
)

// This file parses amounts, durations and signals. The command line shares these functions. All their errors
// are a *Problem without a position.

// quantity matches digits, an optional fraction and an optional unit. Signs, exponents, 0x and NaN are
// refused.
var quantity = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]{1,19})(?:\.([0-9]{1,19}))?([A-Za-z]*)$`)
})

// scaled reads a quantity as a number of the smallest unit, or returns the reason why it cannot. units maps a
// suffix to its factor. The bool reports whether the number is exact.
func scaled(s string, units map[string]int64) (*big.Int, bool, string) {
	m := quantity().FindStringSubmatch(s)
	if m == nil {
		return nil, false, ""
	}
	worth, known := units[m[3]]
	if !known {
		return nil, false, m[3]
	}
	amount, ok := new(big.Rat).SetString(m[1] + "." + m[2] + "0")
	if !ok {
		return nil, false, ""
	}
	amount.Mul(amount, new(big.Rat).SetInt64(worth))
	whole, rest := new(big.Int).QuoRem(amount.Num(), amount.Denom(), new(big.Int))
	exact := rest.Sign() == 0
	if !exact {
		whole.Add(whole, big.NewInt(1))
	}
	return whole, exact, ""
}

// tooMuch is far above every limit of package messages. Sums of it still do not overflow.
const tooMuch = math.MaxInt64 / 4

func bounded(s string, n *big.Int) (int64, error) {
	if n.Cmp(big.NewInt(tooMuch)) > 0 {
		return 0, say("", "%s is too large", quote(s))
	}
	return n.Int64(), nil
}

var milliUnits = map[string]int64{"": 1000, "m": 1}

// ParseCPU reads cores (4, 0.5) or thousandths of a core (500m), and returns thousandths.
func ParseCPU(s string) (int64, error) { return parseMilli(s, "CPU cores", "write 4, 0.5 or 500m") }

// ParseGPU reads a number of devices, or a fraction of one device for a single task, and returns thousandths.
func ParseGPU(s string) (int64, error) {
	return parseMilli(s, "GPUs", "write 8, or 0.5 for half of one")
}

func parseMilli(s, what, hint string) (int64, error) {
	n, exact, _ := scaled(s, milliUnits)
	switch {
	case n == nil:
		return 0, say(negative(s, hint), "%s is not a number of %s", quote(s), what)
	case !exact:
		return 0, say(hint, "%s is more precise than a thousandth", quote(s))
	}
	return bounded(s, n)
}

func negative(s, hint string) string {
	if strings.HasPrefix(s, "-") {
		return "use a positive amount"
	}
	return hint
}

var byteUnits = map[string]int64{"": 1, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40, "Pi": 1 << 50}

// ParseMemory reads an amount of memory and returns bytes, rounded up. A small number of plain bytes is
// refused, because 64 almost always means 64Gi.
func ParseMemory(s string) (int64, error) {
	n, exact, unit := scaled(s, byteUnits)
	if n == nil {
		return 0, say(memoryHint(s, unit), "%s is not an amount of memory", quote(s))
	}
	bytes, err := bounded(s, n)
	if err != nil {
		return 0, err
	}
	if last := s[len(s)-1]; last <= '9' && bytes != 0 && (bytes < 1<<20 || !exact) {
		return 0, say(fmt.Sprintf("did you mean %sGi?", s), "%s has no unit and would mean bytes", quote(s))
	}
	return bytes, nil
}

var spacedUnit = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([0-9]+(?:\.[0-9]+)?) *([KMGTPkmgtp])[iI]?[bB]?$`)
})

func memoryHint(s, unit string) string {
	if m := spacedUnit().FindStringSubmatch(s); m != nil {
		return fmt.Sprintf("did you mean %s%si?", m[1], strings.ToUpper(m[2]))
	}
	if unit != "" {
		return "use a unit: Ki, Mi, Gi, Ti or Pi"
	}
	return negative(s, "write 64Gi")
}

var (
	spans = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[0-9]{1,10}(?:\.[0-9]{1,9})?(?:d|h|ms|m|s))+$`)
	})
	span = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`([0-9]+(?:\.[0-9]+)?)(d|h|ms|m|s)`)
	})
	msOfSpan = map[string]int64{"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
)

// ParseDuration reads a duration (90s, 5m, 1h30m, 2d) and returns milliseconds.
func ParseDuration(s string) (int64, error) {
	if s == "0" {
		return 0, nil
	}
	if m := clock().FindStringSubmatch(s); m != nil {
		return clocked(s, m)
	}
	if !spans().MatchString(s) {
		hint := negative(s, "write 90s, 5m, 24h or 2d")
		if _, err := strconv.ParseUint(s, 10, 32); err == nil {
			hint = fmt.Sprintf("write %[1]ss, or %[1]sm for minutes", s)
		}
		if m := short().FindStringSubmatch(s); m != nil {
			hint = fmt.Sprintf("write 0:%s for minutes, as in Slurm, or %sh%sm", s, m[1], m[2])
		}
		return 0, say(hint, "%s is not a duration", quote(s))
	}
	sum := new(big.Rat)
	for _, part := range span().FindAllStringSubmatch(s, -1) {
		amount, _ := new(big.Rat).SetString(part[1])
		sum.Add(sum, amount.Mul(amount, new(big.Rat).SetInt64(msOfSpan[part[2]])))
	}
	if !sum.IsInt() {
		return 0, say("write whole milliseconds", "%s is more precise than a millisecond", quote(s))
	}
	return bounded(s, sum.Num())
}

// clock matches Slurm's durations: 24:00:00, 2-12:00:00, 2-12:30, 2-12. Slurm's 30 and 30:00 are not
// accepted. They mean minutes on Slurm, but seconds (30) and hours (30:00) in other systems.
var (
	clock = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(
			`^(?:([0-9]{1,4})-([0-9]{1,5})(?::([0-5]?[0-9]))?(?::([0-5]?[0-9]))?|()([0-9]{1,5}):([0-5]?[0-9]):([0-5]?[0-9]))$`)
	})
	short = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^([0-9]{1,5}):([0-5]?[0-9])$`)
	})
)

func clocked(s string, m []string) (int64, error) {
	ms := int64(0)
	for i, unit := range []string{"d", "h", "m", "s"} {
		text := m[i+1] + m[i+5] // one of the two notations
		if text == "" {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, say("", "%s is not a duration", quote(s))
		}
		ms += n * msOfSpan[unit]
	}
	return ms, nil
}

// signals lists the signals that may stop a job, with their numbers on Linux, where jobs run. Package syscall
// has the numbers of the client's system: SIGUSR1 is 30 on macOS, and Windows has no such signal.
var signals = []struct {
	name   string
	number int32
}{
	{"SIGHUP", 1}, {"SIGINT", 2}, {"SIGQUIT", 3}, {"SIGABRT", 6}, {"SIGKILL", 9}, {"SIGUSR1", 10}, {"SIGUSR2", 12},
	{"SIGTERM", 15},
}

// ParseSignal reads SIGTERM, TERM or 15.
func ParseSignal(s string) (int32, *Problem) {
	var names []string
	for _, sig := range signals {
		if up := strings.ToUpper(s); up == sig.name || "SIG"+up == sig.name {
			return sig.number, nil
		}
		names = append(names, sig.name)
	}
	if n, err := strconv.ParseUint(s, 10, 8); err == nil && n >= 1 && n <= 64 {
		return int32(n), nil
	}
	return 0, say(spelling.Meant(strings.ToUpper(s), names), "%s is not a signal", quote(s))
}

// SignalName returns the name of a signal for ParseSignal.
func SignalName(number int32) string {
	for _, s := range signals {
		if s.number == number {
			return s.name
		}
	}
	return strconv.Itoa(int(number))
}
