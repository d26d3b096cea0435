// Command synapse-node is a machine's agent: it owns the machine's GPUs, joins
// a cluster, and runs the tasks that the cluster places on it. It owns the
// flags, the signals and the exit code.
package main

import (
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/runtime/account"
	"github.com/yi-json/synapse/runtime/carapace"
	"github.com/yi-json/synapse/runtime/health"
	"github.com/yi-json/synapse/runtime/image/layer"
	"github.com/yi-json/synapse/runtime/supervisor"
	"github.com/yi-json/synapse/topology"
)

func main() {
	// Without root a container is made by the binary of its supervisor, executed again, and that may be this one.
	if code, mine := carapace.Reexec(os.Args); mine {
		os.Exit(code)
	}
	// Each task's supervisor is this binary too, and must not read an agent's settings.
	if len(os.Args) > 1 && os.Args[1] == supervisor.SubCommand {
		os.Exit(supervisor.Main(os.Args[2:]))
	}
	// And so is the process that unpacks a layer of an image.
	if len(os.Args) > 1 && os.Args[1] == layer.SubCommand {
		os.Exit(layer.Main(os.Args[2:]))
	}
	// And what looks at a file system that may hang.
	if len(os.Args) > 1 && os.Args[1] == health.SubCommand {
		os.Exit(health.Main(os.Args[2:]))
	}
	// And what ends whatever a cluster of one machine has left.
	if len(os.Args) > 1 && os.Args[1] == leftoversCommand {
		os.Exit(clearLeftovers(os.Args[2:]))
	}
	daemon.Main(command())
}

func command() *cobra.Command {
	o := options{}
	c := &cobra.Command{
		Use:   "synapse-node --join HOST:9000",
		Short: "run a machine's agent",
		Long: "Joins this machine to a Synapse cluster and runs the cluster's tasks on it, until it is told to end\n" +
			"(SIGTERM, Ctrl-C). Its tasks outlive it: the next agent on the same --data-dir takes them up.",
		Example: "  synapse-node --join head:9000 --topology zone=a,block=2,rack=r7\n" +
			"  synapse-node --join head:9000 --gpus 8 --gpu-type h100 --data-dir /var/lib/synapse-node",
	}
	o.flags(c.Flags())
	c.AddCommand(daemon.ConfigCommand(twins, reading), doctorCommand())
	return daemon.Command(c, twins, o.check, func() error { return serve(o) }, healthSection(&o.health))
}

// twins begins the names of flags in the environment.
const twins = "SYNAPSE_NODE_"

// reading is one reading of all settings.
func reading() daemon.Reading {
	o := &options{}
	return daemon.Reading{
		Flags: o.flags, Check: o.check, Sections: []settings.Section{healthSection(&o.health)},
	}
}

func (o *options) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.join, "join", nil, "the schedulers' `host:port`, all of them")
	f.StringVar(&o.tls, "tls", "",
		"speak TLS only, with the `folder` of this machine's key and certificate, which names it, or the file that\n"+
			"names an outside issuer's (operations.md);\n"+
			"without it, the folder tls of --data-dir, if it is there or there is a --token")
	f.StringVar(&o.token, "token", "",
		"join with the token in this `file`, or on standard input (-), and make the folder of --tls, unless it is there")
	f.StringVar(&o.dataDir, "data-dir", "/var/lib/synapse-node",
		"the `folder` of the machine's id, its ledger and its tasks")
	f.StringSliceVar(&o.hide, "hide", nil, "the `folders` that no task is shown, beside those of --data-dir and --tls")
	f.StringVar(&o.id, "id", "", "the machine's `name` in the cluster; without it one is made, once")
	f.StringVar(&o.topology, "topology", "", "where it stands, as `level=place,…` from coarse to fine")
	f.StringVar(&o.labels, "labels", "", "what a job's nodeSelector may ask for, as `key=value,…`")
	f.StringVar(&o.address, "address", "",
		"the `address` at which other members reach it; without it, the one towards the scheduler")
	f.StringVar(&o.ports, "ports", "", "the rendezvous ports it may give out, as `first-last`")
	f.IntVar(&o.gpus, "gpus", -1, "declare so many GPUs instead of looking for them")
	f.StringVar(&o.gpuType, "gpu-type", "gpu", "the type of declared GPUs")
	f.IntVar(&o.cpus, "cpus", 0, "offer so many CPUs instead of all")
	f.StringVar(&o.memory, "memory", "", "offer so much memory instead of all, as 64Gi")
	f.StringVar(&o.driver, "driver", driverAuto,
		"what tasks run in: carapace (a container each), oci (one that runc or crun makes), process (no isolation),\n"+
			"or auto: carapace as root where containers work, else process")
	f.StringVar(&o.carapace, "carapace", "", "the `program` carapace; without it, the one beside this program or in PATH")
	f.StringVar(&o.ociRuntime, "oci-runtime", "", "the `program` of --driver oci; without it, crun or runc in PATH")
	f.StringVar(&o.policyFile, "policy", "",
		"a `file` of root's that says what jobs may name on this machine (see docs/runtime.md)")
	f.StringVar(&o.uidRange, "uids", topology.DefaultUIDs,
		"the `first-last` uids that the scheduler may give to jobs which name no user, or root; or none: the same as the "+
			"scheduler's")
	f.StringVar(&o.rootRange, "root-uids", account.DefaultRoots,
		"the `first-last` uids of tasks that are root of a container of their own, 65536 for each, or none: then no task is")
	f.BoolVar(&o.loopbackRegistries, "loopback-registries", false,
		"let jobs name registries on this node's loopback; without it only those that --policy names")
	f.BoolVar(&o.allowRoot, "allow-root", false, "let tasks that ask for it run as this machine's own root")
	f.StringVar(&o.metricsAt, "metrics", "",
		"show figures of this machine to Prometheus at this `host:port`; without it the agent listens on nothing")
	f.StringVar(&o.metricsFile, "metrics-file", "",
		"write them to this `file` every 15 s, as node_exporter's collector of text files reads it (FOLDER/synapse.prom)")
	f.StringVar(&o.prolog, "prolog", "",
		"a `program` of root's that is run here before a job's first task is prepared (docs/operations.md)")
	f.StringVar(&o.epilog, "epilog", "",
		"a `program` of root's that is run here when a job's last task has gone; its GPUs are free after that")
	f.DurationVar(&o.hookTimeout, "hook-timeout", 5*time.Minute, "how `long` each of them may take before it is killed")
	f.StringVar(&o.logFormat, "log-format", daemon.TextLog, daemon.LogFormatHelp)
	f.BoolVar(&o.debug, "debug", false, "log every heartbeat too")
}
