//go:build linux

package image_test

import (
	"fmt"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"

	"github.com/yi-json/synapse/runtime/image"
)

// This file measures images from a registry on loopback, which is never the bottleneck.

// BenchmarkPrepare fetches an image of four large files and one of many small files, and prepares an image that the
// store already has.
func BenchmarkPrepare(b *testing.B) {
	hub := newHub(b)
	bytes, many := int64(48<<20), 20_000
	if testing.Short() { // small, to check that it works
		bytes, many = 1<<20, 200
	}
	large, err := random.Image(bytes, 4)
	if err != nil {
		b.Fatal(err)
	}
	var files []string
	for i := range many {
		files = append(files, fmt.Sprintf("d%d/f%d", i%200, i), "content")
	}
	four, small := hub.push("large:1", large), hub.push("small:1", imageOf(b, v1.Config{}, layerOf(b, files...)))
	for _, fetched := range []struct{ name, ref string }{
		{fmt.Sprintf("%dMiB", 4*bytes>>20), four}, {fmt.Sprintf("%dfiles", many), small},
	} {
		b.Run("fetched/"+fetched.name, func(b *testing.B) {
			for b.Loop() {
				store, _ := open(b, image.Options{})
				prepare(b, store, fetched.ref)
				if err := store.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("there", func(b *testing.B) {
		store, _ := open(b, image.Options{})
		prepare(b, store, small)
		for b.Loop() {
			prepare(b, store, small)
		}
	})
}
