package web

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"strings"
	"sync"
)

// This file serves the modules of the page as one compressed script. Loaded one by one, each module that imports
// another costs a round trip before the first paint.

// script holds the page's script.
type script struct {
	plain, small []byte
}

var pageScript = sync.OnceValue(func() script {
	plain := bundle("app.js")
	var small bytes.Buffer
	out, err := gzip.NewWriterLevel(&small, gzip.BestCompression)
	if err == nil {
		_, err = out.Write(plain)
	}
	if err == nil {
		err = out.Close()
	}
	if err != nil {
		panic(err) // the level is valid, and a buffer takes every write
	}
	return script{plain, small.Bytes()}
})

// app answers with the page's script.
func app(w http.ResponseWriter, r *http.Request) {
	text := pageScript().plain
	w.Header().Set("Content-Type", "text/javascript; charset=utf-8")
	w.Header().Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		text = pageScript().small
		w.Header().Set("Content-Encoding", "gzip")
	}
	_, _ = w.Write(text) // the browser may have disconnected
}
