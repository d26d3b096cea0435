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

// This file owns the queries of schedulers before one of them leads: the cluster of the records, and whether an
// unavailable database may become available.

// ClusterID returns the stored ID of the cluster. If there is none, it stores the given one. Of several simultaneous
// calls, one wins.
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

// Unreachable reports whether an error of Open may disappear with time, because the server is down or starting. Any
// other error needs an operator.
func Unreachable(err error) bool {
	if said := new(pgconn.PgError); errors.As(err, &said) {
		const shutdown, crowded = "57P", "53300"
		return strings.HasPrefix(said.Code, shutdown) || said.Code == crowded
	}
	var network *net.OpError
	var name *net.DNSError
	return errors.As(err, &network) || errors.As(err, &name) || errors.Is(err, context.DeadlineExceeded)
}
