// Command protogen generates Go code from the .proto files of messages/ and server/api/, a description of the client
// API and the Python client's types. It also protects the wire format.
//
// It gives two guarantees. The generated files are exactly the output of the pinned tools for the .proto files (-check
// compares without writing). And the wire format only grows. messages/baseline.txt lists every published message,
// field, enum value and call, one per line. A line that no longer holds is rejected by name, because schedulers and
// nodes of different versions communicate during every upgrade.
//
// protocompile replaces protoc, so that no C++ binary of the right version must be installed. Everything comes through
// go.mod.
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

// protoFolders lists the folders of the .proto files. The files import each other by bare name, so each name is unique.
// Plugins get the name "messages/x.proto". A bare name could clash with a library's file in protobuf's process-wide
// registry, such as Proto.Actor's actor.proto, which is a panic at start. The calls are in a separate folder, because
// their Go code imports gRPC, which packages that only use messages must not import.
var protoFolders = []string{"messages", "server/api"}

// baselineFile is the list of published definitions.
const baselineFile = "messages/baseline.txt"

func main() {
	root := flag.String("root", "..", "the repository's root, relative to tools/")
	check := flag.Bool("check", false, "only compare: write nothing, and fail if anything differs")
	flag.Parse()
	if err := run(*root, *check); err != nil {
		fmt.Fprintln(os.Stderr, "protogen:", err)
		os.Exit(1)
	}
}

// run does everything: it compiles, checks the wire format, generates, and then compares or writes. The check comes
// before any write, so that a breaking change leaves the tree unchanged.
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

// namesWithSuffix lists files of the proto folders as sorted slash paths from the root. A missing folder has no files.
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

// compile parses and links the files. It keeps source positions, because protoc-gen-go copies the comments.
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

// write writes every output and removes generated files without a source. It does not touch unchanged files, so that
// their times, and with them the build cache's shortcuts, stay.
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

// compare names every file that differs, with its first different line.
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

// staleFiles returns generated files that nothing generates any more.
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

// firstDifference returns the first difference of two texts, with both lines.
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
