// Command synapse-node is the agent of a node. It manages the node's GPUs, joins a cluster, and runs the tasks that
// the cluster places on the node. This package defines the flags, the signals and the exit code.
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
	// Without root, a supervisor executes its own binary again to create a container. That may be this binary.
	if code, mine := carapace.Reexec(os.Args); mine {
		os.Exit(code)
	}
	// This binary may also be the supervisor of a task, which must not read an agent's settings.
	if len(os.Args) > 1 && os.Args[1] == supervisor.SubCommand {
		os.Exit(supervisor.Main(os.Args[2:]))
	}
	// This binary also unpacks the layers of images in a separate process.
	if len(os.Args) > 1 && os.Args[1] == layer.SubCommand {
		os.Exit(layer.Main(os.Args[2:]))
	}
	// This binary also checks file systems that may hang in a separate process.
	if len(os.Args) > 1 && os.Args[1] == health.SubCommand {
		os.Exit(health.Main(os.Args[2:]))
	}
	// This binary also cleans up after a killed local cluster.
	if len(os.Args) > 1 && os.Args[1] == leftoversCommand {
		os.Exit(clearLeftovers(os.Args[2:]))
	}
	daemon.Main(command())
}

func command() *cobra.Command {
	o := options{}
	c := &cobra.Command{
		Use:   "synapse-node --join HOST:9000",
		Short: "run the node agent",
		Long: "Joins this node to a Synapse cluster and runs the cluster's tasks on it until SIGTERM or Ctrl-C.\n" +
			"Tasks continue without the agent; the next agent on the same --data-dir takes them over.",
		Example: "  synapse-node --join head:9000 --topology zone=a,block=2,rack=r7\n" +
			"  synapse-node --join head:9000 --gpus 8 --gpu-type h100 --data-dir /var/lib/synapse-node",
	}
	o.flags(c.Flags())
	c.AddCommand(daemon.ConfigCommand(twins, reading), doctorCommand())
	return daemon.Command(c, twins, o.check, func() error { return serve(o) }, healthSection(&o.health))
}

// twins is the prefix of the environment variables of flags.
const twins = "SYNAPSE_NODE_"

// reading returns a new reading of all settings.
func reading() daemon.Reading {
	o := &options{}
	return daemon.Reading{
		Flags: o.flags, Check: o.check, Sections: []settings.Section{healthSection(&o.health)},
	}
}

func (o *options) flags(f *pflag.FlagSet) {
	f.StringSliceVar(&o.join, "join", nil, "address `host:port` of every scheduler, separated by commas")
	f.StringVar(&o.tls, "tls", "",
		"use TLS only, with the node's key and certificate in this `folder`, or with those of an outside issuer "+
			"that a file names (docs/operate/spiffe.md). The certificate defines the node's name. Default: the folder "+
			"tls of --data-dir, if that folder exists or --token is set")
	f.StringVar(&o.token, "token", "",
		"`file` of a join token (- is standard input); creates the folder of --tls if it does not exist")
	f.StringVar(&o.dataDir, "data-dir", "/var/lib/synapse-node", "`folder` for the node's id, its ledger and its tasks")
	f.StringSliceVar(&o.hide, "hide", nil,
		"list of `folders` to hide from all tasks, in addition to those of --data-dir and --tls")
	f.StringVar(&o.id, "id", "", "`name` of the node in the cluster (default: a name that the agent generates once)")
	f.StringVar(&o.topology, "topology", "", "position of the node in the topology tree, from coarse to fine, as "+
		"`level=domain,…`")
	f.StringVar(&o.labels, "labels", "", "labels of the node, which jobs select with nodeSelector, as `key=value,…`")
	f.StringVar(&o.address, "address", "",
		"`address` that other cluster members connect to (default: the local address towards the scheduler)")
	f.StringVar(&o.ports, "ports", "", "rendezvous port range for jobs, as `first-last`")
	f.IntVar(&o.gpus, "gpus", -1, "number of GPUs to declare; -1 detects the GPUs")
	f.StringVar(&o.gpuType, "gpu-type", "gpu", "type of the GPUs declared by --gpus")
	f.IntVar(&o.cpus, "cpus", 0, "number of CPUs to offer; 0 offers all")
	f.StringVar(&o.memory, "memory", "", "memory to offer, such as 64Gi (default: all)")
	f.StringVar(&o.driver, "driver", driverAuto,
		"task driver: carapace (one container per task), oci (containers made by runc or crun), process (no isolation),\n"+
			"or auto, which selects carapace if the agent is root and containers work, else process")
	f.StringVar(&o.carapace, "carapace", "",
		"path of the `program` carapace (default: the one next to this program, then the one in PATH)")
	f.StringVar(&o.ociRuntime, "oci-runtime", "",
		"OCI runtime `program` for --driver oci (default: crun or runc in PATH)")
	f.StringVar(&o.policyFile, "job-policy", "",
		"root-owned `file` that restricts jobs on this node (docs/operate/node-policy.md)")
	f.StringVar(&o.uidRange, "uids", topology.DefaultUIDs,
		"uid range `first-last` for jobs that name no user and for jobs that name root; none disables separate "+
			"uids. The value must equal --uids of the scheduler")
	f.StringVar(&o.rootRange, "root-uids", account.DefaultRoots,
		"uid range `first-last` for tasks that are root in their own container; each task uses 65536 uids, and "+
			"none disables such tasks")
	f.BoolVar(&o.loopbackRegistries, "loopback-registries", false,
		"allow image registries on this node's loopback (default: only those named in --job-policy)")
	f.BoolVar(&o.allowRoot, "allow-root", false, "allow jobs to request that their tasks run as root of this host")
	f.StringVar(&o.metricsAt, "metrics", "",
		"listening address `host:port` for Prometheus metrics (default: the agent opens no port for metrics)")
	f.StringVar(&o.metricsFile, "metrics-file", "",
		"`file` for metrics, rewritten every 15 s for node_exporter's textfile collector (FOLDER/synapse.prom)")
	f.StringVar(&o.prolog, "prolog", "",
		"root-owned `program` to run before the first task of a job is prepared on this node (docs/operate/health-checks.md)")
	f.StringVar(&o.epilog, "epilog", "",
		"root-owned `program` to run when the last task of a job has ended on this node; it ends before other jobs "+
			"get the GPUs")
	f.DurationVar(&o.hookTimeout, "hook-timeout", 5*time.Minute,
		"`time` limit of --prolog and --epilog; a program that exceeds the limit is killed")
	f.StringVar(&o.logFormat, "log-format", daemon.TextLog, daemon.LogFormatHelp)
	f.BoolVar(&o.debug, "debug", false, "log every heartbeat")
}
