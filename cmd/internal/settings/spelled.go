package settings

import (
	"errors"

	"github.com/spf13/pflag"

	"github.com/yi-json/synapse/messages/spelling"
)

// This file owns which flag an unknown one was meant to be.

// MeantFlag returns the flag that an unknown one was most likely meant to be. It returns "" where none is near, and for
// other errors.
func MeantFlag(flags *pflag.FlagSet, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || unknown.GetSpecifiedShortnames() != "" {
		return ""
	}
	var names []string
	flags.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names = append(names, f.Name)
		}
	})
	return spelling.Nearest(unknown.GetSpecifiedName(), names)
}
