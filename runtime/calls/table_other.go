//go:build linux && !amd64 && !arm64

package calls

// This file is for architectures without a table.

var allowed, beside []call
