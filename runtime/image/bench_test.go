//go:build linux

package image_test

import (
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/yi-json/synapse/runtime/image"
)

// This file owns how long images take: from a registry on loopback, which is never what one waits for.

// BenchmarkPrepare: fetched are an image of four large files and one of many small ones; there is one that the store has.
func BenchmarkPrepare(b *testing.B) {
	hub := newHub(b)
	large, err := random.Image(48<<20, 4)
	if err != nil {
		b.Fatal(err)
	}
	var files []string
	for i := range 20_000 {
		files = append(files, fmt.Sprintf("d%d/f%d", i%200, i), "content")
	}
	refs := map[string]string{"192MiB": hub.push("large:1", large), "20000files": hub.push("small:1", imageOf(b, v1.Config{}, layerOf(b, files...)))}
	for _, name := range []string{"192MiB", "20000files"} {
		b.Run("fetched/"+name, func(b *testing.B) {
			for b.Loop() {
				store, _ := open(b, image.Options{})
				prepare(b, store, refs[name])
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("there", func(b *testing.B) {
		store, _ := open(b, image.Options{})
		prepare(b, store, refs["20000files"])
		for b.Loop() {
			prepare(b, store, refs["20000files"])
		}
	})
}
