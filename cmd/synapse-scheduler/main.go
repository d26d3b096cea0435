// Command synapse-scheduler is the control plane of a cluster: one port for nodes and clients, and one store for
// durable state. This package defines the flags, the signals and the exit code.
package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cluster/identity"
	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/cmd/internal/settings"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/server/oidc"
	"github.com/yi-json/synapse/server/secretseal"
	"github.com/yi-json/synapse/server/timeline"
	"github.com/yi-json/synapse/server/unixsocket"
	"github.com/yi-json/synapse/topology"
)

func main() { daemon.Main(command()) }

// twins is the prefix of the environment variables of flags.
const twins = "SYNAPSE_SCHEDULER_"

func command() *cobra.Command {
	o := options{policy: policy.DefaultSettings(), owners: defaultOwners()}
	c := &cobra.Command{
		Use:   "synapse-scheduler",
		Short: "run the scheduler of a Synapse cluster",
		Long: "Runs the scheduler of a Synapse cluster until SIGTERM or Ctrl-C.\n\n" +
			"Without --tls, anyone who can reach the port controls every node, so plaintext is allowed on the\n" +
			"loopback address only. Any other address requires --insecure --insecure.\n\n" +
			"Several schedulers can share a PostgreSQL database: one leads and the others stand by.",
		Example: "  synapse-scheduler --listen 127.0.0.1:9000 --data-dir /var/lib/synapse\n" +
			"  synapse-scheduler --listen 10.0.0.7:9000 --tls keys/scheduler --store postgres://synapse@db/synapse\n" +
			"  synapse-scheduler --config /etc/synapse/scheduler.yaml",
	}
	o.flags(c.Flags())
	c.AddCommand(backupCommand(), restoreCommand(), daemon.ConfigCommand(twins, reading))
	return daemon.Command(c, twins, o.check, func() error { return serve(o) }, o.sections()...)
}

// reading returns a new reading of all settings.
func reading() daemon.Reading {
	o := &options{policy: policy.DefaultSettings(), owners: defaultOwners()}
	return daemon.Reading{
		Flags: o.flags, Check: o.check, Sections: o.sections(), Show: shown,
	}
}

// sections returns the settings that exist only in the file.
func (o *options) sections() []settings.Section {
	return []settings.Section{policySection(&o.policy), ownersSection(&o.owners), notifySection(&o.notify)}
}

// shown returns the part of a setting that may be shown: a database URL without its password.
func shown(name, text string) string {
	if name != "store" {
		return text
	}
	where, err := url.Parse(text)
	if err != nil || where.User == nil {
		return text
	}
	return where.Redacted()
}

// options holds the values of the flags.
type options struct {
	listen, listenFile, advertise, dataDir, store string
	tls, secretsKey, oidcFile                     string
	oidc                                          oidc.Config
	page, local                                   bool
	insecure                                      int // number of occurrences
	pageCert, pageKey, otlp                       string
	levels                                        []string
	keepFinished, past                            time.Duration
	acceptLoss                                    uint64
	uidRange                                      string
	uids                                          topology.UIDRange
	logFormat                                     string
	debug                                         bool
	policy                                        policy.Settings
	owners                                        ownerSettings
	notify                                        []*ruleSettings
}

func (o *options) flags(f *pflag.FlagSet) {
	f.StringVar(&o.listen, "listen", "127.0.0.1:9000",
		"listening address `host:port` for nodes and clients; port 0 picks a free port")
	f.StringVar(&o.listenFile, "listen-file", "", "`file` to write the listening address to")
	f.StringVar(&o.advertise, "advertise", "",
		"address `host:port` that nodes and clients connect to (default: the listening address)")
	f.StringVar(&o.dataDir, "data-dir", unixsocket.DataDir, "data `folder`, with the records if --store is sqlite")
	f.StringVar(&o.tls, "tls", "",
		"use TLS only, with the keys in this `folder` from synapse-cli init, or with those of an outside issuer "+
			"that a file names (docs/operate/spiffe.md)")
	f.CountVar(&o.insecure, "insecure",
		"allow plaintext on an address other than loopback: anyone who can reach the port controls the cluster; give "+
			"the flag twice")
	f.BoolVar(&o.page, "web", true,
		"serve the web UI on the same port; requires --web-cert and --web-key if --tls is set")
	f.BoolVar(&o.local, "local", true,
		"admit root and the scheduler's own user as admins through a unix socket in the data folder, if --tls is set")
	f.StringVar(&o.pageCert, "web-cert", "", "`file` with the certificate of the web UI, from an issuer that "+
		"browsers trust")
	f.StringVar(&o.pageKey, "web-key", "", "private key `file` of --web-cert")
	f.StringVar(&o.secretsKey, "secrets-key", "",
		"`file` of the keys that encrypt job secrets (default: "+secretseal.FileName+" in the folder of --tls, or next\n"+
			"to the file of --tls)")
	f.StringVar(&o.oidcFile, "oidc", "",
		"`file` with the settings of an OpenID Connect issuer for user logins (docs/operate/oidc.md); requires --tls")
	f.StringVar(&o.store, "store", storeSQLite,
		"record store: sqlite (in the data folder), memory (lost on exit), or a postgres:// `URL`")
	f.StringSliceVar(&o.levels, "levels", []string{"zone", "block", "rack"},
		"topology levels above the node, coarse to fine")
	f.DurationVar(&o.keepFinished, "keep-finished", 30*24*time.Hour, "retention of finished jobs; 0 keeps them forever")
	f.DurationVar(&o.past, "timeline", timeline.DefaultFor,
		"retention of the web UI's timeline, which uses at most 100 MB in the data folder; 0 disables the timeline")
	f.StringVar(&o.otlp, "otlp", "",
		"`URL` of an OpenTelemetry collector for traces of gangs, such as http://127.0.0.1:4318 (default: no traces)")
	f.Uint64Var(&o.acceptLoss, "accept-loss", 0,
		"after the restore of an old backup: stop the tasks that leaders up to this `epoch` started and that are "+
			"missing from the records")
	f.StringVar(&o.uidRange, "uids", topology.DefaultUIDs,
		"uid range `first-last` for jobs that name no user and for jobs that name root, one uid per job; none "+
			"disables separate uids. The value must equal --uids of the nodes")
	f.StringVar(&o.logFormat, "log-format", daemon.TextLog, daemon.LogFormatHelp)
	f.BoolVar(&o.debug, "debug", false, "log every heartbeat")
}

const (
	storeSQLite = "sqlite"
	storeMemory = "memory"
)

// shared reports whether several schedulers can share the store.
func (o *options) shared() bool {
	return strings.HasPrefix(o.store, "postgres://") || strings.HasPrefix(o.store, "postgresql://")
}

func (o *options) check() error {
	if err := daemon.CheckLogFormat(o.logFormat); err != nil {
		return err
	}
	if o.store != storeSQLite && o.store != storeMemory && !o.shared() {
		kind, _, _ := strings.Cut(o.store, ":") // the rest may contain a password
		return fmt.Errorf("--store %q: must be %s, %s or a postgres:// URL", kind, storeSQLite, storeMemory)
	}
	if o.dataDir == "" && o.store == storeSQLite {
		return errors.New("--data-dir is empty: the sqlite store needs a folder (or use --store memory)")
	}
	if o.secretsKey != "" && o.tls == "" {
		return errors.New("--secrets-key requires --tls")
	}
	if err := o.checkOIDC(); err != nil {
		return err
	}
	if o.keepFinished < 0 {
		return fmt.Errorf("--keep-finished %s: must not be negative", o.keepFinished)
	}
	if o.past < 0 {
		return fmt.Errorf("--timeline %s: must not be negative", o.past)
	}
	if err := o.checkAddress(); err != nil {
		return err
	}
	if err := o.checkCollector(); err != nil {
		return err
	}
	if (o.pageCert == "") != (o.pageKey == "") {
		return errors.New("--web-cert and --web-key must be set together")
	}
	if o.pageCert != "" && o.tls == "" {
		return errors.New("--web-cert requires --tls")
	}
	var err error
	if o.uids, err = topology.ParseUIDRange(o.uidRange); err != nil {
		return fmt.Errorf("--uids: %w", err)
	}
	seen := map[string]bool{"node": true}
	for _, level := range o.levels {
		if level == "" || seen[level] || strings.ToLower(level) != level {
			return fmt.Errorf("--levels %s: each level must be a unique lower-case name other than node",
				strings.Join(o.levels, ","))
		}
		seen[level] = true
	}
	return nil
}

// checkOIDC reads the file of --oidc.
func (o *options) checkOIDC() error {
	if o.oidcFile == "" {
		return nil
	}
	if o.tls == "" {
		return errors.New("--oidc requires --tls")
	}
	if identity.IsExternal(o.tls) {
		return fmt.Errorf("--oidc: tokens are not supported with certificates of an outside issuer (--tls %s): map IDs to "+
			"roles in that file, or create the cluster's own keys (synapse-cli init)", o.tls)
	}
	text, err := os.ReadFile(o.oidcFile)
	if err == nil && len(text) > oidc.MaxConfigBytes {
		err = fmt.Errorf("file is larger than %d bytes", oidc.MaxConfigBytes)
	}
	if err == nil {
		o.oidc, err = oidc.ReadConfig(text)
	}
	if err != nil {
		return fmt.Errorf("--oidc %s: %w", o.oidcFile, err)
	}
	return nil
}

// loopback reports whether an address is a loopback address.
func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// checkAddress refuses plaintext on addresses other than loopback, unless the operator insists. With a shared
// store, it also requires an address that standby schedulers can tell to clients.
func (o *options) checkAddress() error {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return fmt.Errorf("--listen %q: must be host:port, such as 127.0.0.1:9000", o.listen)
	}
	if o.tls == "" && o.insecure < 2 && !loopback(host) {
		return fmt.Errorf("--listen %s is plaintext: anyone who can reach the port controls every node; set --tls to "+
			"the folder created by synapse-cli init, or --insecure twice (insecure: 2 in the file)", o.listen)
	}
	if o.advertise == "" {
		if o.shared() && everywhere(host) {
			return fmt.Errorf("--listen %s accepts connections on every address: set --advertise to the address for other hosts",
				o.listen)
		}
		return nil
	}
	host, port, err := net.SplitHostPort(o.advertise)
	if err != nil || everywhere(host) || port == "" || port == "0" || strings.ContainsAny(o.advertise, " \t") {
		return fmt.Errorf("--advertise %q: must be host:port, such as head1:9000", o.advertise)
	}
	return nil
}

func everywhere(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}
