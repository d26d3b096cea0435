package patch

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// This file finds the text that a patch replaces. A patch names a folder, so that its text is found after a file moved.

// sources holds the Go files of a tree by path, without tests and generated files.
type sources map[string]string

// read reads a tree.
func read(root string) (sources, error) {
	all := sources{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata"):
			return filepath.SkipDir
		case d.IsDir(), !strings.HasSuffix(name, ".go"):
			return nil
		case strings.HasSuffix(name, "_test.go"), strings.HasSuffix(name, ".pb.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		path, err = filepath.Rel(root, path)
		all[filepath.ToSlash(path)] = string(text)
		return err
	})
	return all, err
}

// locate finds the file of each mutant.
func locate(root string, mutants []Mutant) error {
	all, err := read(root)
	if err != nil {
		return err
	}
	for i := range mutants {
		m := &mutants[i]
		if m.File, err = all.find(m); err != nil {
			return fmt.Errorf("mutant %s: %w", m.Name, err)
		}
	}
	return nil
}

// find returns the file that contains each old text of a mutant exactly once. At least one of these texts must not
// occur elsewhere below the folder, because otherwise a copy of the code would change the patch's meaning.
func (s sources) find(m *Mutant) (file string, err error) {
	counts, whole := make([]int, len(m.Blocks)), 0
	for path, text := range s { //order: one file is looked for, and the others are counted
		if path != m.In && !strings.HasPrefix(path, m.In+"/") && m.In != "." {
			continue
		}
		has := true
		for i, block := range m.Blocks {
			n := len(m.places(text, block.Old))
			counts[i] += n
			has = has && n == 1
		}
		if has {
			file = path
			whole++
		}
	}
	least := counts[0]
	for i, n := range counts {
		if least = min(least, n); n == 0 {
			return "", fmt.Errorf("the patch no longer applies: block %d occurs nowhere in %s:\n%s", i+1, m.where(),
				m.Blocks[i].Old)
		}
	}
	if whole != 1 || least != 1 {
		return "", fmt.Errorf("the blocks occur %v times in %s: quote more, or name the function by `func: NAME`:\n%s",
			counts, m.where(), m.Blocks[0].Old)
	}
	return file, nil
}

// where describes the part of the code in which a mutant's text is searched.
func (m *Mutant) where() string {
	if m.Func != "" {
		return "the functions " + m.Func + " in " + m.In
	}
	return m.In
}

// places returns the positions of an old text in a file, within the functions that the mutant names, if it names any.
func (m *Mutant) places(text, old string) (all []int) {
	if strings.TrimSpace(old) == "" {
		return nil
	}
	for _, part := range m.parts(text) {
		for from := part[0]; ; from += len(old) {
			i := strings.Index(text[from:part[1]], old)
			if i < 0 {
				break
			}
			from += i
			all = append(all, from)
		}
	}
	return all
}

// parts returns the ranges of a file to search.
func (m *Mutant) parts(text string) (all [][2]int) {
	if m.Func == "" {
		return [][2]int{{0, len(text)}}
	}
	begins := regexp.MustCompile(`(?m)^func (\([^)]*\) )?` + regexp.QuoteMeta(m.Func) + `[\[(]`)
	for _, at := range begins.FindAllStringIndex(text, -1) {
		end := len(text)
		if i := strings.Index(text[at[0]:], "\n}\n"); i >= 0 {
			end = at[0] + i + 3
		}
		all = append(all, [2]int{at[0], end})
	}
	return all
}

// Apply returns the file's text with the bug in it.
func (m Mutant) Apply(root string) (string, error) {
	if m.File == "" {
		return "", errors.New("mutant " + m.Name + " was not located: load it from its folder")
	}
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(m.File)))
	if err != nil {
		return "", fmt.Errorf("mutant %s: %w", m.Name, err)
	}
	harmed := string(text)
	for i, block := range m.Blocks {
		at := m.places(harmed, block.Old)
		if len(at) != 1 {
			return "", fmt.Errorf("mutant %s no longer applies: block %d occurs %d times in %s, not once:\n%s",
				m.Name, i+1, len(at), m.File, block.Old)
		}
		harmed = harmed[:at[0]] + block.New + harmed[at[0]+len(block.Old):]
	}
	if harmed == string(text) {
		return "", fmt.Errorf("mutant %s changes nothing", m.Name)
	}
	return harmed, nil
}
