package pgtest

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"
)

func TestServerComesBackWithWhatItHad(t *testing.T) {
	s := Start(t)
	url := s.Database(t)
	s.Exec(t, url, "CREATE TABLE x (n int)", "INSERT INTO x VALUES (7)")
	for _, end := range []func() error{s.Stop, s.Kill} {
		if err := end(); err != nil {
			t.Fatal(err)
		}
		if _, err := pgx.Connect(context.Background(), url); err == nil {
			t.Fatal("the server still runs")
		}
		if err := s.Run(); err != nil {
			t.Fatal(err)
		}
		conn, err := pgx.Connect(context.Background(), url)
		if err != nil {
			t.Fatal(err)
		}
		var n int
		if err := conn.QueryRow(context.Background(), "SELECT n FROM x").Scan(&n); err != nil || n != 7 {
			t.Fatalf("it has %d (%v)", n, err)
		}
		_ = conn.Close(context.Background())
	}
}
