package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/yi-json/synapse/actors"
	"github.com/yi-json/synapse/messages"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/container"
	"github.com/yi-json/synapse/runtime/egress"
	"github.com/yi-json/synapse/runtime/gpu"
	"github.com/yi-json/synapse/runtime/hostpolicy"
	"github.com/yi-json/synapse/runtime/image"
	"github.com/yi-json/synapse/runtime/launcher"
	"github.com/yi-json/synapse/runtime/oci"
	"github.com/yi-json/synapse/runtime/private"
	"github.com/yi-json/synapse/runtime/process"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/runtime/upstream"
)

// This file selects the drivers of tasks, and the program that supervises tasks.

// driverAuto selects containers if they work, and otherwise plain processes.
const driverAuto = "auto"

// probeLimit limits the test of a container. A mount that hangs must not exclude a node forever.
const probeLimit = 30 * time.Second

// means holds the drivers, the one for new tasks first, and the command of the supervisor.
type means struct {
	drivers    []launcher.Driver
	keeper     *egress.Keeper // blocks addresses that tasks must not reach
	users      *hostpolicy.Lister
	supervisor []string
}

// announce sets the features for new tasks in the announcement: private networks and secrets.
func (m means) announce(a *messages.Announcement) {
	if d, ok := m.drivers[0].(interface{ Networks() []messages.Network }); ok {
		a.Networks = d.Networks()
	}
	if d, ok := m.drivers[0].(interface{ SecretWays() (files, env bool) }); ok {
		a.SecretFiles, a.SecretEnv = d.SecretWays()
	}
}

// begin starts the parts that react to changes of the host. Call end to stop them.
func (m means) begin() (end func()) {
	unkeep, unlist := m.keeper.Begin(m.groups), m.users.Begin()
	return func() { unlist(); unkeep() }
}

// groups returns the cgroups of the running tasks of all drivers.
func (m means) groups() []string {
	var all []string
	for _, driver := range m.drivers {
		if d, ok := driver.(interface{ Groups() []string }); ok {
			all = append(all, d.Groups()...)
		}
	}
	return all
}

// programs holds the absolute paths of the programs that were found; empty: not found.
type programs struct {
	own   string   // this project's carapace
	other string   // the small one from which it was developed
	oci   []string // OCI runtimes
}

func (o *options) find(ctx context.Context) (p programs, err error) {
	if p.own, err = findCarapace(o.carapace); err != nil {
		return p, err
	}
	if o.carapace != "" && upstream.Is(ctx, p.own) {
		p.other = p.own
		if p.own, err = findCarapace(""); err != nil {
			return p, err
		}
		if p.own == "" {
			return p, fmt.Errorf("--carapace: %s runs only in a container of this project's carapace, which is missing: "+
				"put carapace next to synapse-node or in PATH", p.other)
		}
	}
	if p.oci, err = oci.Find(o.ociRuntime); err != nil && (o.ociRuntime != "" || o.driver == oci.Name) {
		return p, fmt.Errorf("--oci-runtime: %w", err)
	}
	return p, nil
}

// choose finds out which drivers work here, and logs the result. It creates all drivers, because running tasks of
// an earlier agent may use another one.
func (o *options) choose(dir string, images *image.Store, gpus *gpu.Hardware, log actors.Log) (means, error) {
	ctx, cancel := context.WithTimeout(context.Background(), probeLimit)
	defer cancel()
	found, err := o.find(ctx)
	if err != nil {
		return means{}, err
	}
	users := account.Rules{
		AllowRoot: o.allowRoot, From: o.policy.Users.From, UIDs: o.uids, Unmapped: !account.Mapped(o.uids),
	}
	if users.Unmapped && os.Geteuid() == 0 {
		log.Info("Jobs without a user share one user here: the agent is root of a user namespace without "+
			"--uids %v",
			o.uids)
	}
	inContainers, err := o.withRoots(users, dir, log)
	if err != nil {
		return means{}, err
	}
	hidden, err := o.hidden(dir)
	if err != nil {
		return means{}, fmt.Errorf("--tls: %w", err)
	}
	described := container.Options{
		Binary: found.own, StateDir: filepath.Join(dir, "carapace"), Hide: hidden, Users: inContainers,
		Policy: o.policy,
		Images: container.Stored{Store: images}, Gpus: gpus,
	}
	m := means{
		supervisor: []string{"/proc/self/exe", supervisor.SubCommand}, users: hostpolicy.NewLister(o.policy.Users),
	}
	m.keeper = egress.NewKeeper(egress.Options{
		Schedulers: o.join, Tell: log.Info,
		Reachable: o.policy.MayReach(hostpolicy.Schedulers), Disclosed: o.policy.MayReach(hostpolicy.Metadata),
	})
	described.Unreachable = m.keeper.Places
	if err := o.addPrivate(dir, &m, &described, log); err != nil {
		return means{}, err
	}
	containers, err := container.New(described)
	if err != nil {
		return means{}, err
	}
	if err := carapace.WritePolicy(described.StateDir, o.allowed()); err != nil {
		return means{}, err
	}
	log.Info("Users that jobs may name here: %s", o.allowed())
	if err := containers.Collect(); err != nil {
		log.Info("The remains of an earlier agent's containers cannot be removed yet: %v", err)
	}
	why := o.unwilling(ctx, found.own, containers)
	if o.carapace != "" && !containers.Checked() {
		return m, fmt.Errorf("--carapace: %s", why)
	}
	if found.own != "" && containers.Checked() {
		m.supervisor[0] = found.own // a third of this binary's size, once per task
	}
	plain := process.New(process.Options{Users: users, Policy: o.policy, Hide: hidden, Gpus: gpus})
	m.drivers = []launcher.Driver{containers, plain}
	if err := o.addOthers(ctx, &m, found, described, containers); err != nil {
		return m, err
	}
	return m, o.settle(m.drivers, why, containers, found, log)
}

// withRoots adds the uid ranges for tasks that are root in their containers, if the agent can use them.
func (o *options) withRoots(users account.Rules, dir string, log actors.Log) (account.Rules, error) {
	if os.Geteuid() != 0 || o.allowRoot || o.roots.Len() == 0 {
		return users, nil
	}
	if !account.Mapped(o.roots) {
		log.Info("Jobs cannot run as root here: the agent is root of a user namespace without --root-uids "+
			"%v", o.roots)
		return users, nil
	}
	roots, err := account.OpenRoots(filepath.Join(dir, "roots"), o.roots, carapace.IDsLen)
	users.Roots = roots
	return users, err
}

// addPrivate adds private networks for jobs, if the host supports them.
func (o *options) addPrivate(dir string, m *means, described *container.Options, log actors.Log) error {
	of := private.Options{Dir: filepath.Join(dir, "networks"), Resolvers: o.policy.Resolvers}
	why := ""
	if err := private.Lacks(of); err != nil {
		why = err.Error()
		log.Info("Private networks are not available here: %s", why)
	} else {
		networks, err := private.Open(of)
		if err != nil {
			return err
		}
		if err := networks.Refuse(m.keeper.Places()); err != nil {
			return err
		}
		m.keeper.OnChange(networks.Refuse)
		described.Private = networks
	}
	return carapace.WriteNetworks(described.StateDir, why)
}

// addOthers adds the drivers that use other programs. A driver for new tasks is put first.
func (o *options) addOthers(ctx context.Context, m *means, found programs, described container.Options,
	containers *container.Driver) error {
	if len(found.oci) > 0 {
		driver, err := o.newOCI(ctx, found.oci, filepath.Join(filepath.Dir(described.StateDir), "oci"), containers)
		if err != nil {
			return err
		}
		m.drivers = append(m.drivers, driver)
	}
	if found.other != "" {
		// That program changes its root, which must be the host's.
		described.Images, described.Users.Roots = container.Local{}, nil
		around, err := container.New(described)
		if err == nil {
			err = around.Check(ctx)
		}
		if err != nil {
			return err
		}
		m.drivers = append(m.drivers, upstream.New(found.other, around))
	}
	return nil
}

// newOCI selects the first runtime that can run a container here. If new tasks use another driver, it selects the
// runtime of an earlier agent's tasks.
func (o *options) newOCI(ctx context.Context, runtimes []string, dir string,
	containers *container.Driver) (*oci.Driver, error) {
	var failed []error
	for i, runtime := range runtimes {
		state := filepath.Join(dir, filepath.Base(runtime))
		if _, err := os.Stat(state); o.driver != oci.Name && err != nil && i+1 < len(runtimes) {
			continue
		}
		driver, err := oci.New(oci.Options{Runtime: runtime, StateDir: state, Container: containers})
		if err == nil && o.driver == oci.Name {
			err = driver.Try(ctx)
		}
		if err == nil {
			return driver, nil
		}
		failed = append(failed, err)
	}
	return nil, fmt.Errorf("--driver %s: %w", oci.Name, errors.Join(failed...))
}

// settle puts the driver for new tasks first, and logs which driver it is and why.
func (o *options) settle(drivers []launcher.Driver, why string, containers *container.Driver, found programs,
	log actors.Log) error {
	front := func(name string) {
		i := slices.IndexFunc(drivers, func(d launcher.Driver) bool { return d.Name() == name })
		drivers[0], drivers[i] = drivers[i], drivers[0]
	}
	lacks := ""
	if all := containers.Lacks(); len(all) > 0 {
		lacks = "; this node cannot enforce: " + strings.Join(all, ", ")
	}
	switch {
	case o.driver == oci.Name:
		front(oci.Name)
		driver := drivers[0].(*oci.Driver)
		log.Info("Driver %s: each task runs in a container made by %s%s", oci.Name, driver.Runtime(), lacks)
		if err := driver.NoRoot(); err != nil {
			log.Info("Jobs cannot run as root here: %v", err)
		}
	case why != "" && o.driver != driverAuto && o.driver != process.Name:
		return fmt.Errorf("--driver %s: %s", o.driver, why)
	case why != "":
		front(process.Name)
		sayPlain(drivers[0].(*process.Driver), why, log)
	case found.other != "":
		front(upstream.Name)
		log.Info("Driver %s: each task runs in a separate container, started by "+
			"%s%s", upstream.Name, found.other, lacks)
	default:
		log.Info("Driver %s: each task runs in a separate container%s", container.Name, lacks)
	}
	return nil
}

// sayPlain logs how plain processes are confined, and what is not enforced.
func sayPlain(d *process.Driver, why string, log actors.Log) {
	confined := "not isolated"
	if d.Confined() {
		confined = "plain processes confined by Landlock"
	}
	log.Info("Driver %s: tasks are %s, because %s; this node cannot enforce: %s",
		process.Name, confined, why, strings.Join(d.Lacks(), ", "))
	if barred := d.Barred(); len(barred) > 0 {
		log.Info("Tasks cannot write to %s, because it contains the agent's data directory; they have $TMPDIR",
			strings.Join(barred, ", "))
	}
}

// unwilling returns why new tasks do not run in containers of this project's carapace, or "".
func (o *options) unwilling(ctx context.Context, binary string, containers *container.Driver) string {
	if binary == "" {
		return "carapace is neither next to this program nor in PATH"
	}
	if err := containers.Check(ctx); err != nil {
		return err.Error()
	}
	switch {
	case o.driver == process.Name:
		return "--driver is process"
	case o.driver == driverAuto && os.Geteuid() != 0:
		return "the agent is not root"
	}
	if err := containers.Try(ctx); err != nil {
		return err.Error()
	}
	return ""
}

// helper returns the path of the program that is mounted into tasks, or "".
func (o *options) helper() string {
	path, err := findBeside(launcher.HelperName)
	if err != nil {
		return ""
	}
	return path
}

// findCarapace returns an absolute path, or "" if carapace is not found.
func findCarapace(given string) (string, error) {
	if given != "" {
		path, err := exec.LookPath(given)
		if err == nil {
			path, err = filepath.Abs(path)
		}
		if err != nil {
			return "", fmt.Errorf("--carapace: %w", err)
		}
		return path, nil
	}
	return findBeside("carapace")
}

// findBeside searches for a program next to this one, and then in PATH.
func findBeside(name string) (string, error) {
	if self, err := os.Executable(); err == nil {
		beside := filepath.Join(filepath.Dir(self), name)
		if _, err := exec.LookPath(beside); err == nil {
			return beside, nil
		}
	}
	path, err := exec.LookPath(name)
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, exec.ErrDot) {
		return "", nil
	}
	if err == nil {
		path, err = filepath.Abs(path)
	}
	return path, err
}

// openImages opens the node's image store.
func (o *options) openImages(dir string, log actors.Log) (*image.Store, error) {
	return image.Open(filepath.Join(dir, "images"), image.Options{
		Log: log, MayPull: o.policy.MayPull, Inside: o.policy.NamesRegistry, Loopback: o.loopbackRegistries,
	})
}
