package slurm

import (
	"reflect"

	"github.com/yi-json/synapse/messages"
)

// This file escapes control characters in the texts of other users. Programs also parse Slurm's output.

// visible escapes control characters in all texts of a struct.
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
