package slurm

import (
	"reflect"

	"github.com/yi-json/synapse/messages"
)

// This file owns that a word which others wrote stays a word: Slurm's lines are read by programs, too.

// visible writes out what steers in all texts of a struct.
func visible[T any](of *T) *T {
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		if !v.Field(i).CanInterface() {
			continue
		}
		switch f := v.Field(i).Addr().Interface().(type) {
		case *string:
			*f = messages.OneLine(*f)
		case *[]string:
			for j, text := range *f {
				(*f)[j] = messages.OneLine(text)
			}
		}
	}
	return of
}
