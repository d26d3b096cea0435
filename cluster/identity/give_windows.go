package identity

import (
	"io/fs"
	"os"
)

// This file owns that files are given to nobody on Windows.

// give does nothing: what lies in a folder has the rights of the folder.
func give(*os.File, fs.FileInfo) error { return nil }
