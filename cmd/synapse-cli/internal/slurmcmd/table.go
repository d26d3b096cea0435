package slurmcmd

import (
	"io"

	"github.com/yi-json/synapse/cmd/internal/slurm"
)

// This file prints the lines of listings. Each value is escaped, and the text of the user's own format is printed as it
// is.

// table prints the lines of a format, with optional headers.
func table[T any](a *CLI, heads bool, before string, columns []slurm.Column[T], rows []T) error {
	return slurm.Table(heads, before, columns, rows, func(line string) error {
		_, err := io.WriteString(a.Stdout, line+"\n") // without quotes: the format may have control characters
		return err
	})
}
