// Command protogen turns the .proto files of messages/ and server/api/ into Go, into a description of the client API
// and into its client's types for Python, and guards the wire.
//
// It owns two promises. The generated files are exactly what the pinned tools make of the .proto files (-check compares
// without writing). And the wire only ever grows: messages/baseline.txt lists every message, field, enum value and
// call that was ever published, one per line, and a line that no longer holds is refused by name, because a
// scheduler and a node of different versions talk to each other during every upgrade.
//
// protocompile stands in for protoc so that no C++ binary has to be installed at the right version: everything comes
// through go.mod.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sort"
	"strings"

	"github.com/bufbuild/protocompile"
	"github.com/bufbuild/protocompile/linker"
)

// protoFolders are where the .proto files lie. They import each other by bare name, as neighbours do, so a name is
// given once; the plugins are told "messages/x.proto", because a bare name would one day clash, in protobuf's
// process-wide registry, with a file of the same name in a library (Proto.Actor has an actor.proto of its own), and
// that is a panic at start. The calls are a folder of their own because their Go code imports gRPC, which nothing that
// speaks in messages may.
var protoFolders = []string{"messages", "server/api"}

// baselineFile is the list of what was published.
const baselineFile = "messages/baseline.txt"

func main() {
	root := flag.String("root", "..", "the repository's root, relative to tools/")
	check := flag.Bool("check", false, "compare only; write nothing, fail if anything differs")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// run does the whole: compile, guard the wire, generate, then compare or write. The guard comes before anything is
// written, so that a breaking change leaves the tree as it was.
func run(root string, check bool) error {
	names, err := namesWithSuffix(root, ".proto")
	if err != nil {
		return err
	}
	if len(names) == 0 {
		return fmt.Errorf("no .proto file under %s of %s", strings.Join(protoFolders, ", "), root)
	}
	files, err := compile(root, names)
	if err != nil {
		return fmt.Errorf("compile: %w", err)
	}
	outputs, err := generate(files, names)
	if err != nil {
		return fmt.Errorf("generate: %w", err)
	}
	baseline, err := guardedBaseline(root, files)
	if err != nil {
		return err
	}
	outputs[baselineFile] = baseline
	if s := client(files); s != nil {
		if outputs[documentFile], err = openAPI(s); err != nil {
			return fmt.Errorf("describe: %w", err)
		}
		outputs[pythonFile] = python(s)
	}
	if check {
		return compare(root, outputs)
	}
	return write(root, outputs)
}

// namesWithSuffix lists files of the proto folders as slash paths from the root, sorted; a folder that is not there yet
// has none.
func namesWithSuffix(root, suffix string) ([]string, error) {
	var names []string
	for _, folder := range protoFolders {
		entries, err := os.ReadDir(filepath.Join(root, filepath.FromSlash(folder)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		for _, entry := range entries {
			if !entry.IsDir() && strings.HasSuffix(entry.Name(), suffix) {
				names = append(names, folder+"/"+entry.Name())
			}
		}
	}
	sort.Strings(names)
	return names, nil
}

// compile parses and links the files. Source positions are kept, because protoc-gen-go copies the comments.
func compile(root string, names []string) (linker.Files, error) {
	neighbours := make([]string, len(names))
	for i, name := range names {
		neighbours[i] = path.Base(name)
	}
	folders := make([]string, len(protoFolders))
	for i, folder := range protoFolders {
		folders[i] = filepath.Join(root, filepath.FromSlash(folder))
	}
	compiler := protocompile.Compiler{
		Resolver: protocompile.WithStandardImports(&protocompile.SourceResolver{
			ImportPaths: folders,
		}),
		SourceInfoMode: protocompile.SourceInfoStandard,
	}
	return compiler.Compile(context.Background(), neighbours...)
}

// write puts every output in place and removes generated files whose source is gone. Files that are already right are
// left alone, so that their times, and the build cache's stat shortcuts, stay.
func write(root string, outputs map[string]string) error {
	for _, name := range sortedKeys(outputs) {
		file := filepath.Join(root, filepath.FromSlash(name))
		if old, err := os.ReadFile(file); err == nil && string(old) == outputs[name] {
			continue
		}
		if err := os.WriteFile(file, []byte(outputs[name]), 0o644); err != nil {
			return fmt.Errorf("write: %w", err)
		}
		fmt.Println("wrote", name)
	}
	stale, err := staleFiles(root, outputs)
	if err != nil {
		return err
	}
	for _, name := range stale {
		if err := os.Remove(filepath.Join(root, filepath.FromSlash(name))); err != nil {
			return fmt.Errorf("remove stale file: %w", err)
		}
		fmt.Println("removed", name)
	}
	return nil
}

// compare names every file that differs, with the first line that does.
func compare(root string, outputs map[string]string) error {
	var problems []string
	for _, name := range sortedKeys(outputs) {
		old, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			problems = append(problems, name+": missing")
		case err != nil:
			return fmt.Errorf("compare: %w", err)
		case string(old) != outputs[name]:
			problems = append(problems, firstDifference(name, string(old), outputs[name]))
		}
	}
	stale, err := staleFiles(root, outputs)
	if err != nil {
		return err
	}
	for _, name := range stale {
		problems = append(problems, name+": its .proto file is gone")
	}
	if len(problems) > 0 {
		return fmt.Errorf("generated files are out of date; run `make proto`\n  %s", strings.Join(problems, "\n  "))
	}
	return nil
}

// staleFiles are generated files that nothing generates any more.
func staleFiles(root string, outputs map[string]string) ([]string, error) {
	names, err := namesWithSuffix(root, ".pb.go")
	if err != nil {
		return nil, err
	}
	var stale []string
	for _, name := range names {
		if _, made := outputs[name]; !made {
			stale = append(stale, name)
		}
	}
	return stale, nil
}

// firstDifference says where two texts part, with both lines.
func firstDifference(name, committed, generated string) string {
	oldLines, newLines := strings.Split(committed, "\n"), strings.Split(generated, "\n")
	for i := 0; i < len(oldLines) || i < len(newLines); i++ {
		old, made := lineAt(oldLines, i), lineAt(newLines, i)
		if old != made {
			return fmt.Sprintf("%s:%d\n    - %s\n    + %s", name, i+1, old, made)
		}
	}
	return name + ": differs"
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(end of file)"
}

func sortedKeys(texts map[string]string) []string {
	keys := make([]string, 0, len(texts))
	for key := range texts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
