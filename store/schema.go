package store

import (
	"fmt"
	"io/fs"
)

// This file owns the list of a database's migrations, and which programs may open a migrated database.
//
// A migration is additive if a program without it works as before and ignores the additions: new tables, indexes, and
// columns with a default. Every other migration is breaking. That includes a migration with additive statements if an
// earlier program would leave the additions out of date. A database stores the number of its schema and of its last
// breaking migration. The program of the last release can therefore use a database with newer additions, and an upgrade
// can be reverted.

// Schemas returns the migrations of a database in order. Each is a file in the folder migrations. A published migration
// never changes its effect. The version of a schema is the number of its migrations.
func Schemas(files fs.FS) ([]string, error) {
	names, err := fs.Glob(files, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(names))
	for i, name := range names {
		text, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, err
		}
		texts[i] = string(text)
	}
	return texts, nil
}

// Version holds the version of a database's schema.
type Version struct {
	Schema int // number of its migrations; 0: none
	Oldest int // its last breaking migration: a program needs at least this many
}

// Refused returns why a program that knows this many migrations must not touch the database.
func (v Version) Refused(known int) error {
	if v.Oldest <= known {
		return nil
	}
	return fmt.Errorf("a newer synapse-scheduler wrote the database (schema %d, for programs with at least %d; this "+
		"one has %d); run that version, or restore an older backup", v.Schema, v.Oldest, known)
}

// Complete returns an error if a database lacks migrations of the program that has opened it.
func (v Version) Complete(known int) error {
	if v.Schema < known || v.Refused(known) != nil {
		return fmt.Errorf("schema is %d, but this program needs %d", v.Schema, known)
	}
	return nil
}
