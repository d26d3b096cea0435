package main

import (
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/cluster/credential"
	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/machine"
	"github.com/yi-json/synapse/runtime/oci"
	"github.com/yi-json/synapse/runtime/process"
	"github.com/yi-json/synapse/topology"
)

// This file validates the flags, and creates the node's announcement from them.

type options struct {
	join                                   []string
	dataDir, id, topology, labels, address string
	ports, gpuType, memory                 string
	driver, carapace, ociRuntime           string
	tls, token                             string
	metricsAt, metricsFile                 string
	hide                                   []string
	policyFile, uidRange, rootRange        string
	policy                                 hostpolicy.Policy
	uids, roots                            topology.UIDRange
	gpus, cpus                             int
	allowRoot, debug, loopbackRegistries   bool
	place, selectable                      []*messages.Label
	portFirst, portLast                    int
	memoryBytes                            int64
	health                                 []*checkSettings
	prolog, epilog, logFormat              string
	hookTimeout                            time.Duration
}

func (o *options) check() (err error) {
	if len(o.join) == 0 {
		return errors.New("--join is missing: set it to the scheduler's host:port")
	}
	for _, at := range o.join {
		if _, port, err := net.SplitHostPort(at); err != nil || port == "" {
			return fmt.Errorf("--join %q: must be host:port, such as head:9000", at)
		}
	}
	err = errors.Join(o.checkHidden(), o.checkMetrics(), o.checkHooks(), daemon.CheckLogFormat(o.logFormat))
	if err != nil {
		return err
	}
	if o.dataDir == "" {
		return errors.New("--data-dir is empty: the node's ledger needs a folder")
	}
	o.findKeys()
	if known := []string{driverAuto, container.Name, oci.Name, process.Name}; !slices.Contains(known, o.driver) {
		return fmt.Errorf("--driver %q: must be one of %s", o.driver, strings.Join(known, ", "))
	}
	if o.policyFile != "" {
		if o.policy, err = hostpolicy.Read(o.policyFile); err != nil {
			return fmt.Errorf("--job-policy: %w", err)
		}
	}
	o.policy.Users.Proven = o.tls != ""
	if o.uids, err = topology.ParseUIDRange(o.uidRange); err != nil {
		return fmt.Errorf("--uids: %w", err)
	}
	o.policy.Users.UIDs = o.uids
	if o.roots, err = topology.ParseUIDRange(o.rootRange); err != nil {
		return fmt.Errorf("--root-uids: %w", err)
	}
	if err := o.checkUIDs(); err != nil {
		return err
	}
	if o.place, err = pairs(o.topology); err != nil {
		return fmt.Errorf("--topology %q: %w", o.topology, err)
	}
	if o.selectable, err = pairs(o.labels); err != nil {
		return fmt.Errorf("--labels %q: %w", o.labels, err)
	}
	if o.cpus < 0 {
		return fmt.Errorf("--cpus %d: must not be negative", o.cpus)
	}
	if o.memory != "" {
		if o.memoryBytes, err = parseBytes(o.memory); err != nil {
			return fmt.Errorf("--memory %q: %w", o.memory, err)
		}
	}
	if o.ports != "" {
		first, last, found := strings.Cut(o.ports, "-")
		a, errA := strconv.ParseUint(first, 10, 16)
		b, errB := strconv.ParseUint(last, 10, 16)
		if !found || errA != nil || errB != nil || a == 0 || b < a {
			return fmt.Errorf("--ports %q: must be first-last, such as 20000-20999", o.ports)
		}
		o.portFirst, o.portLast = int(a), int(b)
	}
	return nil
}

// portRange returns the first port of --ports and the number of ports, or zeros if the flag is not set.
func (o *options) portRange() (first, count int) {
	if o.portFirst == 0 {
		return 0, 0
	}
	return o.portFirst, o.portLast - o.portFirst + 1
}

// findKeys sets the folder of the node's key if --tls is not set. It is in --data-dir, if the node has joined with
// a token or is about to. An agent that restarts without its token therefore keeps its identity.
func (o *options) findKeys() {
	folder := filepath.Join(o.dataDir, "tls")
	if _, err := os.Stat(folder); o.tls == "" && (o.token != "" || err == nil) {
		o.tls = folder
	}
}

// checkHidden refuses folders that cannot be hidden. A missing folder is refused too, because it would be visible
// when it is created later.
func (o *options) checkHidden() (err error) {
	for i, path := range o.hide {
		if o.hide[i], err = filepath.Abs(path); err != nil {
			return fmt.Errorf("--hide: %w", err)
		}
		if info, err := os.Stat(path); err != nil || !info.IsDir() {
			return fmt.Errorf("--hide %q: folder does not exist", path)
		}
		if o.hide[i] == "/" {
			return errors.New("--hide /: this would also hide the programs of the tasks")
		}
	}
	return nil
}

// hidden returns the folders that no task may see. They always include the folder of the node's key, also that of
// an outside issuer. An agent that is not root runs tasks as its own user, whom the mode of the key permits to read
// it.
func (o *options) hidden(dir string) ([]string, error) {
	all := append([]string{dir}, o.hide...)
	if o.tls == "" {
		return all, nil
	}
	tls, err := filepath.Abs(o.tls)
	if err != nil || !identity.IsExternal(tls) {
		return append(all, tls), err
	}
	x, err := credential.ReadExternal(tls)
	if err != nil {
		return nil, err
	}
	folder := x.KeyFolder()
	if filepath.Dir(folder) == "/" {
		return nil, fmt.Errorf("key: tasks cannot see the folder of the key, and %s contains other files: put the key "+
			"into a separate folder", folder)
	}
	return append(all, folder), nil
}

// checkUIDs refuses a uid range that is in use on this host. An agent that is not root runs no job as another user.
func (o *options) checkUIDs() error {
	if os.Geteuid() != 0 {
		return nil
	}
	if err := account.CheckUIDs(o.uids); err != nil {
		return fmt.Errorf("--uids: jobs without a user would run as an existing user: %w; "+
			"use another range for the schedulers and all nodes, or %s", err, topology.NoUIDs)
	}
	if err := account.CheckRoots(o.roots, o.uids, carapace.IDsLen); err != nil {
		return fmt.Errorf("--root-uids: %w; use another range for this node, or %s", err, topology.NoUIDs)
	}
	return nil
}

// allowed describes which users jobs may name, and the uids of jobs without a user.
func (o *options) allowed() string {
	roots := fmt.Sprintf("root in a separate container, with uids of --root-uids %v", o.roots)
	switch {
	case o.allowRoot:
		roots = "root of this host (--allow-root)"
	case o.roots.Len() == 0:
		roots = "refused"
	}
	return fmt.Sprintf("%v; jobs without a user have a uid of --uids %v; jobs that name root are %s",
		o.policy, o.uids, roots)
}

// pairs parses key=value,… in the given order.
func pairs(text string) ([]*messages.Label, error) {
	var out []*messages.Label
	seen := map[string]bool{}
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		key, value, found := strings.Cut(part, "=")
		switch {
		case !found || key == "" || value == "":
			return nil, fmt.Errorf("%q must be key=value", part)
		case seen[key]:
			return nil, fmt.Errorf("duplicate %s", key)
		}
		seen[key] = true
		out = append(out, &messages.Label{Key: key, Value: value})
	}
	return out, nil
}

// units maps the suffixes of memory sizes to bytes.
var units = map[string]int64{
	"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30, "Ti": 1 << 40,
}

// leastMemory is less than any node has. A smaller value has a wrong unit.
const leastMemory = 1 << 20

// parseBytes parses an amount of memory. It uses big numbers, so that fractions are exact and overflows are
// detected.
func parseBytes(text string) (int64, error) {
	number := strings.TrimRight(text, "KMGTi")
	unit, known := units[text[len(number):]]
	amount, is := new(big.Rat).SetString(number)
	if !known || !is || strings.ContainsAny(number, "eE/_pP") || amount.Sign() <= 0 {
		return 0, errors.New("must be an amount such as 64Gi or 512M")
	}
	amount.Mul(amount, new(big.Rat).SetInt64(unit))
	bytes := new(big.Int).Quo(amount.Num(), amount.Denom())
	switch {
	case !bytes.IsInt64() || bytes.Sign() <= 0:
		return 0, errors.New("is outside the supported range")
	case bytes.Int64() < leastMemory && unit == 1:
		return 0, fmt.Errorf("has no unit and would mean bytes: did you mean %sGi?", number)
	case bytes.Int64() < leastMemory:
		return 0, errors.New("is outside the supported range")
	}
	return bytes.Int64(), nil
}

// announce creates the announcement of the node from the detected properties, which the flags override.
func (o *options) announce(found gpu.Record, log actors.Log) (*messages.Announcement, *devices, error) {
	total, err := machine.Capacity()
	if err != nil {
		return nil, nil, err
	}
	if o.cpus > 0 {
		total.MilliCpu = int64(o.cpus) * 1000
	}
	if o.memoryBytes > 0 {
		total.MemoryBytes = o.memoryBytes
	}
	gpus, err := o.findDevices(found, log)
	if err != nil {
		return nil, nil, err
	}
	total.MilliGpu = int64(len(gpus.found.Devices)) * 1000
	address := o.address
	if address == "" {
		if address, err = machine.Advertise(o.join[0]); err != nil {
			return nil, nil, fmt.Errorf("%w (use --address for the address at which other nodes reach this node)", err)
		}
	}
	portFirst, portLast, err := machine.Ports(o.portRange())
	if err != nil {
		return nil, nil, fmt.Errorf("--ports: %w", err)
	}
	return &messages.Announcement{
		Total: total, Gpus: gpus.found.Gpus(), Place: o.place, Labels: o.selectable,
		Address: address, PortFirst: portFirst, PortLast: portLast, AgentVersion: daemon.Version(),
	}, gpus, nil
}
