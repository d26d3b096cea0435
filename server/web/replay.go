package web

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// This file makes a page of a recording that needs no cluster and no server. In a file that is opened from a
// folder, browsers do not load modules or data. All modules therefore become one script, and the recording becomes
// another.

// Replay returns the files of a recording's page, by name.
func Replay(record io.Reader) (map[string][]byte, error) {
	data, err := scriptOf(record)
	if err != nil {
		return nil, err
	}
	made := map[string][]byte{"record.js": data, "page.js": bundle("app.js")}
	for _, name := range []string{"style.css", "icon.svg"} {
		made[name] = pageFile(name)
	}
	html := string(pageFile("index.html"))
	const modules = `<script type="module" src="app.js"></script>`
	if !strings.Contains(html, modules) {
		panic("the page loads its modules another way")
	}
	policy := `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'self'; ` +
		`style-src 'self'; img-src 'self'; base-uri 'none'; form-action 'none'">`
	html = strings.Replace(html, modules, `<script defer src="record.js"></script>`+"\n"+
		`<script defer src="page.js"></script>`, 1)
	made["index.html"] = []byte(strings.Replace(html, `<title>`, policy+"\n<title>", 1))
	return made, nil
}

// scriptOf converts a recording into a script. Each line is decoded and encoded again, so that it contains only
// data.
func scriptOf(record io.Reader) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("globalThis.record = [\n")
	lines := bufio.NewScanner(record)
	lines.Buffer(nil, MaxRecord)
	n := 0
	for lines.Scan() {
		n++
		var p piece
		in := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		in.DisallowUnknownFields()
		if err := in.Decode(&p); err != nil {
			return nil, fmt.Errorf("line %d is not a line of a recording: %w", n, err)
		}
		text, err := json.Marshal(p)
		if err != nil {
			return nil, err
		}
		if n == 1 && !bytes.Contains(text, []byte(`["me",`)) {
			return nil, errors.New("not a recording of `synapse-cli web --record`")
		}
		out.Write(append(text, ',', '\n'))
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if n == 0 {
		return nil, errors.New("the recording is empty")
	}
	out.WriteString("];\n")
	return out.Bytes(), nil
}

func pageFile(name string) []byte {
	text, err := fs.ReadFile(files, "page/"+name)
	if err != nil {
		panic(err) // it is part of the program
	}
	return text
}

var (
	imports = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^import (\{[^}]*\}|\* as \w+) from "\./(\w+)\.js";\n`)
	})
	exports = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?m)^export ((?:async )?function|const) (\w+)`)
	})
)

// bundle returns a module and all its imports as one script without imports.
func bundle(first string) []byte {
	var out bytes.Buffer
	done := map[string]bool{}
	var add func(name string)
	add = func(name string) {
		if done[name] {
			return
		}
		done[name] = true
		text := string(pageFile(name + ".js"))
		for _, m := range imports().FindAllStringSubmatch(text, -1) {
			add(m[2])
		}
		var names []string
		for _, m := range exports().FindAllStringSubmatch(text, -1) {
			names = append(names, m[2])
		}
		text = imports().ReplaceAllStringFunc(text, func(line string) string {
			m := imports().FindStringSubmatch(line)
			return "const " + strings.TrimPrefix(m[1], "* as ") + " = module_" + m[2] + ";\n"
		})
		text = exports().ReplaceAllString(text, "$1 $2")
		fmt.Fprintf(&out, "const module_%s = (() => {\n\"use strict\";\n%s\nreturn { %s };\n})();\n",
			name, text, strings.Join(names, ", "))
	}
	add(strings.TrimSuffix(first, ".js"))
	return out.Bytes()
}

// replayed serves the files of a recording's page.
func replayed(made map[string][]byte) http.Handler {
	mux := http.NewServeMux()
	for _, name := range slices.Sorted(maps.Keys(made)) {
		at, kind := "/"+name, map[string]string{".html": "text/html", ".css": "text/css", ".svg": "image/svg+xml",
			".js": "text/javascript"}
		if name == "index.html" {
			at = "/{$}"
		}
		mux.HandleFunc("GET "+at, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", kind[name[strings.LastIndexByte(name, '.'):]]+"; charset=utf-8")
			_, _ = w.Write(made[name]) // the browser may have disconnected
		})
	}
	return mux
}
