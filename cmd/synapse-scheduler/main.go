// Command synapse-scheduler is the control plane of a cluster: one port for
// machines and clients, one store for what must not be lost. It owns the flags,
// the signals and the exit code.
package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/yi-json/synapse/cmd/internal/daemon"
)

func main() { daemon.Main(command()) }

func command() *cobra.Command {
	o := options{}
	c := &cobra.Command{
		Use:   "synapse-scheduler",
		Short: "run the scheduler of a Synapse cluster",
		Long: "Runs the scheduler of a Synapse cluster until it is told to end (SIGTERM, Ctrl-C).\n\n" +
			"Without identities whoever reaches the port commands every machine, so it is on the loopback unless\n" +
			"told otherwise.",
		Example: "  synapse-scheduler --listen 127.0.0.1:9000 --data-dir /var/lib/synapse\n" +
			"  synapse-scheduler --config /etc/synapse/scheduler.yaml",
	}
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:9000", "the `host:port` for machines and clients; port 0 takes a free one")
	f.StringVar(&o.listenFile, "listen-file", "", "write the address that is listened on to this `file`")
	f.StringVar(&o.dataDir, "data-dir", "/var/lib/synapse", "the `folder` of what must not be lost")
	f.StringVar(&o.store, "store", storeSQLite, "where records are kept: sqlite (in the data folder) or memory (lost at the end)")
	f.StringSliceVar(&o.levels, "levels", []string{"zone", "block", "rack"}, "the machine room's levels above the machine, coarse to fine")
	f.BoolVar(&o.debug, "debug", false, "log every heartbeat too")
	return daemon.Command(c, "SYNAPSE_SCHEDULER_", o.check, func() error { return serve(o) })
}

// options are what the flags say.
type options struct {
	listen, listenFile, dataDir, store string
	levels                             []string
	debug                              bool
}

const (
	storeSQLite = "sqlite"
	storeMemory = "memory"
)

func (o *options) check() error {
	if o.store != storeSQLite && o.store != storeMemory {
		return fmt.Errorf("--store %q: must be %s or %s", o.store, storeSQLite, storeMemory)
	}
	if o.dataDir == "" && o.store == storeSQLite {
		return errors.New("--data-dir is empty: the sqlite store needs a folder (or use --store memory)")
	}
	seen := map[string]bool{"node": true}
	for _, level := range o.levels {
		if level == "" || seen[level] || strings.ToLower(level) != level {
			return fmt.Errorf("--levels %s: each must be a lower-case name of its own, and node is the machine itself", strings.Join(o.levels, ","))
		}
		seen[level] = true
	}
	return nil
}
