package store

import "io/fs"

// This file owns how a database's migrations are read.

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
