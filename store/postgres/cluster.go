package postgres

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// This file owns what schedulers ask before one of them leads: which cluster the
// records are of, and whether a database that does not answer may answer later.

// ClusterID returns the stored id of the cluster; where there is none yet, it stores this one. If several come at once,
// one wins.
func (s *Store) ClusterID(fresh string) (id string, err error) {
	ctx, leave, err := s.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	err = pgx.BeginFunc(ctx, s.writes, func(tx pgx.Tx) error {
		if _, err := tx.Exec(ctx, "INSERT INTO synapse.cluster (id) VALUES ($1) ON CONFLICT DO NOTHING", fresh); err != nil {
			return err
		}
		return tx.QueryRow(ctx, "SELECT id FROM synapse.cluster").Scan(&id)
	})
	if err != nil {
		return "", fmt.Errorf("store: cluster id: %w", judged(err))
	}
	return id, nil
}

// Unreachable reports whether time may mend an error of Open, because the server is away or only starting; any other
// error a person must mend.
func Unreachable(err error) bool {
	if said := new(pgconn.PgError); errors.As(err, &said) {
		const shutdown, crowded = "57P", "53300"
		return strings.HasPrefix(said.Code, shutdown) || said.Code == crowded
	}
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, context.DeadlineExceeded)
}
