package store

import (
	"fmt"
	"io/fs"
)

// This file owns how a database's migrations are read, and which programs may open what they made.
//
// A migration is additive where a program without it reads and writes all that it knew as before, and leaves alone what
// the migration brought: new tables, indexes, and columns with a default. Every other one is breaking, also one whose
// statements look additive, if an earlier program would leave what it brought out of date. A database notes both its
// schema and the last breaking one up to there, so that the program of the last release goes on with what a newer one
// added, and an upgrade can be taken back.

// Schemas are the migrations of a database in their order. Each is a file in a folder of that name, and is never
// changed once it was published: the version of a schema is the number of its migrations.
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
	Schema int // the number of its migrations; 0: it has none
	Oldest int // the last breaking one of them: a program that knows this many may open the database
}

// Refused returns why a program that knows this many migrations must not touch the database.
func (v Version) Refused(known int) error {
	if v.Oldest <= known {
		return nil
	}
	return fmt.Errorf("a newer synapse-scheduler wrote it (schema %d, for programs that know at least %d; this one knows "+
		"up to %d); run that version, or restore a backup from before it", v.Schema, v.Oldest, known)
}

// Complete returns what a database lacks that a program of this many migrations has opened.
func (v Version) Complete(known int) error {
	if v.Schema < known || v.Refused(known) != nil {
		return fmt.Errorf("the schema is %d, but this program knows %d", v.Schema, known)
	}
	return nil
}
