package web

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"
)

// TestScript checks that a browser gets the modules of the page as one script, compressed if the browser can read that,
// and that the script needs no further module.
func TestScript(t *testing.T) {
	d := serve(t, &scheduler{}).enter()
	answer, small := d.ask("GET", "/app.js", "", map[string]string{"Accept-Encoding": "gzip"})
	from, err := gzip.NewReader(strings.NewReader(small))
	if err != nil || answer.Header.Get("Content-Encoding") != "gzip" {
		t.Fatalf("%v %v", err, answer.Header)
	}
	unpacked, err := io.ReadAll(from)
	if err != nil || !bytes.Equal(unpacked, bundle("app.js")) {
		t.Errorf("%d bytes: %v", len(unpacked), err)
	}
	answer, plain := d.ask("GET", "/app.js", "", map[string]string{"Accept-Encoding": "identity"})
	if answer.Header.Get("Content-Encoding") != "" || plain != string(unpacked) || strings.Contains(plain, "\nimport ") {
		t.Errorf("%v, %d bytes", answer.Header, len(plain))
	}
}
