// Command callgen writes the table of the system calls that a task may make (runtime/calls/table*.go). These are the
// calls that containerd's default profile permits for an unprivileged container, in the version that tools/go.mod pins,
// without additional refused calls. With -check it writes nothing and fails if a file would change.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/format"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/containerd/containerd/v2/contrib/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"
)

const profileModule = "github.com/containerd/containerd/v2"

// architectures lists the supported platforms. The profile is read on the present one. Calls that only one architecture
// has are decided by its numbers: a name without a number there is dropped.
var architectures = []string{"amd64", "arm64"}

// refused lists calls that the profile permits and that no task needs, because each led to kernel bugs or is obsolete.
var refused = []string{
	"modify_ldt", "ustat", "sysfs", "uselib", "_sysctl", "get_kernel_syms", "query_module", "create_module",
	"vm86", "vm86old",
}

// grants lists the capabilities that permit additional calls, if a container has them.
var grants = []string{"CAP_SYS_CHROOT", "CAP_SYS_NICE", "CAP_SYS_PTRACE", "CAP_SYS_TIME"}

func main() {
	root := flag.String("root", ".", "the repository's root")
	check := flag.Bool("check", false, "write nothing, and fail if a file is out of date")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "callgen:", err)
		os.Exit(1)
	}
}

func run(root string, check bool) error {
	files := map[string][]byte{}
	p := read(seccomp.DefaultProfile(withCapabilities()))
	files["table.go"] = p.common()
	for _, arch := range architectures {
		numbered, err := numbers(arch)
		if err != nil {
			return err
		}
		files["table_"+arch+".go"] = p.table(numbered)
	}
	for name, text := range files { //order: each file is written for itself
		text, err := format.Source(text)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		at := filepath.Join(root, "runtime", "calls", name)
		old, err := os.ReadFile(at)
		switch {
		case check && (err != nil || !bytes.Equal(old, text)):
			return fmt.Errorf("%s is out of date: run make proto", at)
		case !check && !bytes.Equal(old, text):
			if err := os.WriteFile(at, text, 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

func withCapabilities(names ...string) *specs.Spec {
	return &specs.Spec{Process: &specs.Process{Capabilities: &specs.LinuxCapabilities{Bounding: names}}}
}

// profile holds the used parts of containerd's profile.
type profile struct {
	allowed       []string // permitted with all arguments
	domains       []uint64 // of socket
	personalities []uint64
	granted       map[string][]string // by capability
}

// read parses a profile. It refuses an unknown form of rule, because such a rule might permit less than read assumes.
func read(s *specs.LinuxSeccomp) profile {
	p := profile{granted: map[string][]string{}}
	for _, rule := range s.Syscalls {
		if rule.Action != specs.ActAllow {
			continue
		}
		switch {
		case len(rule.Args) == 0:
			p.allowed = append(p.allowed, rule.Names...)
		case rule.Names[0] == "socket":
			p.domains = append(p.domains, values(rule)...)
		case rule.Names[0] == "personality":
			p.personalities = append(p.personalities, values(rule)...)
		case rule.Names[0] == "clone": // every new namespace is refused, as calls.Program states
		default:
			panic(fmt.Sprintf("the profile has a rule of an unknown form: %v", rule))
		}
	}
	slices.Sort(p.allowed)
	p.allowed = slices.DeleteFunc(slices.Compact(p.allowed),
		func(name string) bool { return slices.Contains(refused, name) })
	for _, capability := range grants {
		for _, rule := range seccomp.DefaultProfile(withCapabilities(capability)).Syscalls {
			for _, name := range rule.Names {
				if rule.Action == specs.ActAllow && len(rule.Args) == 0 && !slices.Contains(p.allowed, name) &&
					!slices.Contains(refused, name) {
					p.granted[capability] = append(p.granted[capability], name)
				}
			}
		}
	}
	return p
}

func values(rule specs.LinuxSyscall) []uint64 {
	arg := rule.Args[0]
	switch {
	case len(rule.Args) == 1 && arg.Index == 0 && arg.Op == specs.OpEqualTo:
		return []uint64{arg.Value}
	case len(rule.Args) == 1 && arg.Index == 0 && arg.Op == specs.OpLessThan: // no protocol has domain 0
		var all []uint64
		for v := uint64(1); v < arg.Value; v++ {
			all = append(all, v)
		}
		return all
	case len(rule.Args) == 1 && arg.Index == 0 && arg.Op == specs.OpGreaterThan: // among the existing domains
		var all []uint64
		for v := arg.Value + 1; v < unix.AF_MAX; v++ {
			all = append(all, v)
		}
		return all
	}
	panic(fmt.Sprintf("the profile has a rule of an unknown form: %v", rule))
}

// numbers returns the calls of an architecture, as golang.org/x/sys names them.
func numbers(arch string) (map[string]bool, error) {
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		return nil, fmt.Errorf("cannot locate golang.org/x/sys: %w", err)
	}
	text, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(dir)), "unix", "zsysnum_linux_"+arch+".go"))
	if err != nil {
		return nil, err
	}
	all := map[string]bool{}
	for _, found := range regexp.MustCompile(`(?m)^\s+(SYS_\w+)\s+= \d+$`).FindAllSubmatch(text, -1) {
		all[string(found[1])] = true
	}
	return all, nil
}

func header() string {
	version := "?"
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, m := range info.Deps {
			if m.Path == profileModule {
				version = m.Version
			}
		}
	}
	return "// Code generated by tools/callgen from the default profile of containerd " + version + ". DO NOT EDIT.\n\n"
}

// common returns the part for all architectures.
func (p profile) common() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%spackage calls\n\n", header())
	list := func(comment, name string, values []uint64) {
		slices.Sort(values)
		fmt.Fprintf(&b, "// %s\nvar %s = []uint32{", comment, name)
		for _, v := range values {
			fmt.Fprintf(&b, "%#x,", v)
		}
		b.WriteString("}\n\n")
	}
	list("domains lists the permitted address families of sockets.", "domains", p.domains)
	list("personalities lists the permitted execution domains of programs.", "personalities", p.personalities)
	b.WriteString("// granted maps each capability to the calls that it permits.\nvar granted = map[string][]string{\n")
	for _, capability := range grants {
		slices.Sort(p.granted[capability])
		fmt.Fprintf(&b, "%q: {", strings.TrimPrefix(capability, "CAP_"))
		for _, name := range p.granted[capability] {
			fmt.Fprintf(&b, "%q,", name)
		}
		b.WriteString("},\n")
	}
	b.WriteString("}\n")
	return b.Bytes()
}

// table returns one architecture's calls with their numbers.
func (p profile) table(numbered map[string]bool) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%spackage calls\n\nimport \"golang.org/x/sys/unix\"\n\n", header())
	write := func(comment, name string, names []string) {
		fmt.Fprintf(&b, "// %s\nvar %s = []call{\n", comment, name)
		for _, n := range names {
			if constant := "SYS_" + strings.ToUpper(n); numbered[constant] {
				fmt.Fprintf(&b, "{%q, unix.%s},\n", n, constant)
			}
		}
		b.WriteString("}\n\n")
	}
	write("allowed lists the calls that every task may make with any arguments.", "allowed", p.allowed)
	var beside []string
	for _, capability := range grants {
		beside = append(beside, p.granted[capability]...)
	}
	slices.Sort(beside)
	write("beside lists the calls that need a capability.", "beside", slices.Compact(beside))
	return b.Bytes()
}
