//go:build linux && !amd64 && !arm64

package calls

// This file says that an architecture has no table.

var allowed, beside []call
