// Command repeats looks for code that stands in the tree twice: six lines or more that are alike but for their names.
// What may stay is listed in known.txt, with its reason. Whatever else it finds is an error, and so is an entry that is
// true no more, and a list that has grown too long.
//
//	go -C tools run ./repeats -root ..           says what is wrong
//	go -C tools run ./repeats -root .. -all      says all that it finds
//	go -C tools run ./repeats -root .. -lines    counts the lines of production code instead
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
	all := flag.Bool("all", false, "say all that is found")
	lines := flag.Bool("lines", false, "count the lines of production code, by room")
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
		return fmt.Errorf("%s\nWrite it once; or, where that would be worse, say why in tools/repeats/known.txt",
			strings.Join(wrong, "\n"))
	}
	return nil
}

// count prints how many lines of production code each room has, and all: without tests, generated files, tools,
// comments and blank lines.
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
