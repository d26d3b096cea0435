// Package world runs what users bring: programs too big to ask of everybody that runs the tests. Its tests are behind a
// build tag, and `make test-integration` installs what they need. This file owns that the package is there without the
// tag.
package world
