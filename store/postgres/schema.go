package postgres

import (
	"context"
	"embed"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/yi-json/synapse/store"
	"github.com/yi-json/synapse/topology"
)

// This file owns the schema's versions. Each migration is one file and runs once. All missing migrations run in one
// transaction. Schedulers that start at the same time wait for each other at an advisory lock.

//go:embed migrations/*.sql
var migrations embed.FS

// breaking is the last breaking migration. A program without it must not open the database.
const breaking = 11

// migrationLock is an arbitrary number for the advisory lock.
const migrationLock = 0x53594e4150534531

// schemas returns the migrations in order. The schema's version is their number.
func schemas() ([]string, error) { return store.Schemas(migrations) }

// migrate updates the schema to the latest version.
func (s *Store) migrate() error {
	texts, err := schemas()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxMigration)
	defer cancel()
	return pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error { return migrate(ctx, tx, texts) })
}

func migrate(ctx context.Context, tx pgx.Tx, texts []string) error {
	if _, err := tx.Exec(ctx, unbounded); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock($1)", int64(migrationLock)); err != nil {
		return err
	}
	have, err := version(ctx, tx)
	if err != nil {
		return err
	}
	if err := have.Refused(len(texts)); err != nil || have.Schema >= len(texts) {
		return err
	}
	if _, err := tx.Exec(ctx, "CREATE SCHEMA IF NOT EXISTS synapse; CREATE TABLE IF NOT EXISTS synapse.version (version "+
		"integer NOT NULL)"); err != nil {
		return err
	}
	for n := have.Schema; n < len(texts); n++ {
		if _, err := tx.Exec(ctx, texts[n]); err != nil {
			return fmt.Errorf("migrate to schema %d: %w", n+1, err)
		}
		if fill := filled[n+1]; fill != nil {
			if err := fill(ctx, tx); err != nil {
				return fmt.Errorf("migrate to schema %d: %w", n+1, err)
			}
		}
	}
	if _, err := tx.Exec(ctx, "DELETE FROM synapse.version"); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, "INSERT INTO synapse.version (version, schema) VALUES ($1, $2)", breaking, len(texts))
	return err
}

// filled lists the migrations whose new columns are filled from the records, which SQL alone cannot do.
var filled = map[int]func(context.Context, pgx.Tx) error{3: fillQueues}

// fillBatch is the number of records in memory at a time.
const fillBatch = 1_000

// fillQueues fills the column queue of jobs.
func fillQueues(ctx context.Context, tx pgx.Tx) error {
	for last, n := "", fillBatch; n == fillBatch; {
		var err error
		if last, n, err = fillSome(ctx, tx, last); err != nil {
			return err
		}
	}
	return nil
}

// fillSome fills the column of a batch of jobs after this ID. It returns the last ID and the number of jobs.
func fillSome(ctx context.Context, tx pgx.Tx, after string) (last string, n int, err error) {
	var ids, queues []string
	err = query(ctx, tx, func(rows store.Row) error {
		var id string
		var sealed []byte
		if err := rows.Scan(&id, &sealed); err != nil {
			return err
		}
		job, _ := store.ReadJob(topology.JobID(id), sealed) // the queue of an unreadable job is unknown
		ids, queues = append(ids, id), append(queues, job.GetSpec().GetQueue())
		return nil
	}, "SELECT id, record FROM synapse.job WHERE id > $1 AND queue IS NULL AND record IS NOT NULL ORDER BY id LIMIT $2",
		after, fillBatch)
	if err != nil || len(ids) == 0 {
		return after, 0, err
	}
	_, err = tx.Exec(ctx, `UPDATE synapse.job j SET queue = n.queue FROM unnest($1::text[], $2::text[]) AS n (id, queue)
		WHERE j.id = n.id AND j.queue IS NULL`, ids, queues)
	return ids[len(ids)-1], len(ids), err
}

// fillLate fills the column of jobs that a leader of the previous version wrote after the migration, while schedulers
// are replaced one by one. Usually there are none, which costs one lookup in an empty index.
func (s *Store) fillLate(what string) error {
	ctx, leave, err := s.enter()
	if err != nil {
		return err
	}
	defer leave()
	for last, n := "", fillBatch; n == fillBatch; {
		err := again(func() error {
			return pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) (err error) {
				last, n, err = fillSome(ctx, tx, last)
				return err
			})
		})
		if err != nil {
			return said(what, err)
		}
	}
	return nil
}

// version reads the schema's version. Zero means that there is none yet. Programs before schema 10 know only the column
// version, as the number of the schema. They open a database only if they know at least as many migrations. Programs of
// the last release can therefore open a current database.
func version(ctx context.Context, tx pgx.Tx) (have store.Version, err error) {
	var there bool
	if err := tx.QueryRow(ctx, "SELECT to_regclass('synapse.version') IS NOT NULL").Scan(&there); err != nil || !there {
		return have, err
	}
	// The column schema may be missing. The row is read as JSON, in which a missing column is null.
	err = tx.QueryRow(ctx,
		"SELECT max(version), max(coalesce((to_jsonb(v) ->> 'schema')::integer, 0)) FROM synapse.version v").
		Scan(&have.Oldest, &have.Schema)
	have.Schema = max(have.Schema, have.Oldest)
	return have, err
}
