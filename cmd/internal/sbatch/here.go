package sbatch

import (
	"os"
	"os/user"
	"slices"
	"strings"
)

// This file reads the environment of a submit.

// Here returns who submits, and from where. A job runs as its owner's account, so that the owner can access
// its files; without TLS, as the account of the login name. A job of root names no user and gets a separate uid,
// like all such jobs.
func Here() Submitter {
	from := Submitter{Env: os.Environ()}
	from.Dir, _ = os.Getwd()
	from.Host, _ = os.Hostname()
	if who, err := user.Current(); err == nil && who.Uid != "0" && !strings.Contains(who.Username, `\`) {
		from.User = who.Username
		return from
	}
	own := []string{"HOME", "USER", "LOGNAME", "MAIL", "SUDO_USER", "SUDO_UID", "SUDO_GID", "SUDO_COMMAND"}
	from.Env = slices.DeleteFunc(from.Env, func(entry string) bool {
		name, _, _ := strings.Cut(entry, "=")
		return slices.Contains(own, name) || strings.HasPrefix(name, "XDG_")
	})
	return from
}
