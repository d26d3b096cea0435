// Command repeats finds duplicate code: six lines or more that are equal except for their names. known.txt lists the
// permitted repeats with their reasons. Any other repeat is an error. So is an outdated entry, and a list that has
// become too long.
//
//	go -C tools run ./repeats -root ..           report errors
//	go -C tools run ./repeats -root .. -all      report all repeats
//	go -C tools run ./repeats -root .. -lines    count the lines of production code instead
package main

import (
	"bytes"
	_ "embed"
	"flag"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"
)

//go:embed known.txt
var known string

func main() {
	root := flag.String("root", ".", "the tree")
	all := flag.Bool("all", false, "report all repeats")
	lines := flag.Bool("lines", false, "count the lines of production code, by top folder")
	flag.Parse()
	if err := run(*root, *all, *lines); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(root string, all, lines bool) error {
	if lines {
		return count(root)
	}
	functions, err := readTree(root)
	if err != nil {
		return err
	}
	found := find(functions)
	if all {
		for _, r := range found {
			fmt.Println(r)
		}
		return nil
	}
	places, err := parseKnown(known)
	if err != nil {
		return err
	}
	wrong := judge(found, places)
	if len(wrong) > 0 {
		return fmt.Errorf("%s\nWrite the code once; or, if that would be worse, add the reason to tools/repeats/known.txt",
			strings.Join(wrong, "\n"))
	}
	return nil
}

// count prints the number of lines of production code of each top folder and their sum, without tests, generated files,
// tools, comments and blank lines.
func count(root string) error {
	rooms, total := map[string]int{}, 0
	err := eachFile(root, func(file string, text []byte) error {
		n := len(codeLines(bytes.TrimSpace(text)))
		rooms[path.Dir(file)] += n
		total += n
		return nil
	})
	if err != nil {
		return err
	}
	var names []string
	for room := range rooms {
		names = append(names, room)
	}
	slices.Sort(names)
	for _, room := range names {
		fmt.Printf("%7d  %s\n", rooms[room], room)
	}
	fmt.Printf("%7d  in all\n", total)
	return nil
}
