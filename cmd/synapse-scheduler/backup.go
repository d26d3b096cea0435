package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/cmd/internal/daemon"
	"github.com/yi-json/synapse/policy"
	"github.com/yi-json/synapse/store/sqlite"
)

// This file implements an operator's commands for the sqlite store: backup and restore.

func backupCommand() *cobra.Command {
	return fileCommand(&cobra.Command{
		Use:   "backup FILE",
		Short: "back up the scheduler's records to a file",
		Long: "Copies the records of a data folder to a new file, as a consistent snapshot. The scheduler can\n" +
			"keep running during the backup. The command verifies the copy before giving it its final name.",
		Example: "  synapse-scheduler backup --data-dir /var/lib/synapse /backup/synapse-$(date +%F).db",
	}, func(o *options, file string) error {
		if err := sqlite.BackupFile(filepath.Join(o.dataDir, databaseFile), file); err != nil {
			return err
		}
		fmt.Printf("Backup of %s written to %s\n", o.dataDir, file)
		return nil
	})
}

func restoreCommand() *cobra.Command {
	return fileCommand(&cobra.Command{
		Use:   "restore FILE",
		Short: "create a data folder from a backup",
		Long: "Creates records in an empty data folder from a backup. Then start the scheduler with that folder.\n" +
			"Changes after the backup are missing from the records. If a node reports a task that is newer than\n" +
			"the backup, the scheduler logs a warning and starts no jobs. Running tasks continue. To continue\n" +
			"without the missing records, restart the scheduler with --accept-loss.",
		Example: "  synapse-scheduler restore --data-dir /var/lib/synapse /backup/synapse-2026-01-31.db",
	}, restore)
}

// restoring returns the name of an incomplete data folder during a restore.
func restoring(dataDir string) string { return filepath.Clean(dataDir) + ".restoring" }

// restore creates a data folder from a backup. A missing folder is created under another name and renamed when it
// is complete. A failed restore leaves nothing. An interrupted one leaves a folder that prevents a scheduler from
// starting.
func restore(o *options, file string) error {
	there, err := os.ReadDir(o.dataDir)
	switch {
	case errors.Is(err, os.ErrNotExist):
		err = restoreBeside(o.dataDir, file)
	case err != nil:
		return fmt.Errorf("--data-dir: %w", err)
	case len(there) > 0:
		return fmt.Errorf("--data-dir %s: folder is not empty (it contains %s): use another folder, or move its content",
			o.dataDir, there[0].Name())
	default: // it may be a mount point, which cannot be replaced
		err = sqlite.Restore(file, filepath.Join(o.dataDir, databaseFile))
	}
	if err != nil {
		return err
	}
	fmt.Printf("%s restored from %s; start the scheduler on it\n", o.dataDir, file)
	return nil
}

// restoreBeside creates a missing data folder and its missing parents.
func restoreBeside(dataDir, file string) (err error) {
	dir, err := filepath.Abs(dataDir)
	if err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	var above []string // missing parents, innermost first
	for at := filepath.Dir(dir); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || at == filepath.Dir(at) {
			break
		}
		above = append(above, at)
	}
	made := restoring(dir)
	if _, err := os.Lstat(made); err == nil {
		return fmt.Errorf("--data-dir: %s: %w; a restore is running, or was interrupted: in this case, remove the folder",
			made, os.ErrExist)
	}
	defer func() {
		if err == nil {
			return
		}
		err = errors.Join(err, os.RemoveAll(made))
		for _, folder := range above {
			_ = os.Remove(folder) // unless it contains other files
		}
	}()
	if err := os.MkdirAll(made, 0o700); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	if err := sqlite.Restore(file, filepath.Join(made, databaseFile)); err != nil {
		return err
	}
	if err := os.Rename(made, dir); err != nil {
		return fmt.Errorf("--data-dir: %w", err)
	}
	return nil
}

// unrestored returns why a scheduler must not start on a data folder after an interrupted restore, or nil.
func unrestored(dataDir string) error {
	if _, err := os.Lstat(filepath.Join(dataDir, databaseFile)); err == nil {
		return nil
	}
	for _, left := range []string{restoring(dataDir), sqlite.Partial(filepath.Join(dataDir, databaseFile))} {
		if _, err := os.Lstat(left); err == nil {
			return fmt.Errorf("--data-dir: %s belongs to a restore that is running or was interrupted; remove it, and run "+
				"the restore again, because a scheduler without these records would be a new, empty cluster", left)
		}
	}
	return nil
}

// fileCommand returns a command on one file. It accepts the scheduler's flags, so that an operator can pass the
// scheduler's settings unchanged.
func fileCommand(c *cobra.Command, run func(o *options, file string) error) *cobra.Command {
	o := &options{policy: policy.DefaultSettings(), owners: defaultOwners()}
	o.flags(c.Flags())
	check := func() error {
		if err := o.check(); err != nil {
			return err
		}
		if o.store != storeSQLite {
			return errors.New("backup supports the sqlite store only: use pg_dump for PostgreSQL (see docs/operate/backup.md)")
		}
		return nil
	}
	daemon.Command(c, twins, check, func() error { return run(o, c.Flags().Arg(0)) }, o.sections()...)
	c.Flags().VisitAll(func(f *pflag.Flag) { f.Hidden = f.Name != "data-dir" && f.Name != "config" })
	c.Args = func(c *cobra.Command, args []string) error {
		if len(args) != 1 {
			return daemon.Usage{
				Err: fmt.Errorf("%s accepts one FILE, got %d\nrun %s --help", c.Name(), len(args), c.CommandPath()),
			}
		}
		return nil
	}
	return c
}
