// Package world tests programs that users bring and that are too large for every developer's tests. Its tests need a
// build tag, and `make test-integration` installs their programs. This file makes the package exist without the tag.
package world
