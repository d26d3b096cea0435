package identity

import (
	"io/fs"
	"os"
)

// This file leaves file ownership unchanged on Windows.

// give does nothing, because a file inherits the rights of its folder.
func give(*os.File, fs.FileInfo) error { return nil }
