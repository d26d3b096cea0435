// Command prose checks the English of the documentation, the help of the programs, the web UI and errors. It counts
// patterns that confuse readers. Each has a ceiling (ceilings.txt) that may only decrease. It also checks the subjects
// of commits.
//
//	go -C tools run ./prose -root ..                     check
//	go -C tools run ./prose -root .. -list told          print every sentence with a pattern
//	go -C tools run ./prose -root .. -list error/told    print every error with a pattern
//	go -C tools run ./prose -root .. -lower              write the present counts as the ceilings
//	go -C tools run ./prose -root .. -sample 200 -seed 7 print sentences for readers who rate them
package main

import (
	"flag"
	"fmt"
	"math/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func main() {
	root := flag.String("root", ".", "directory of the repository")
	list := flag.String("list", "", "print the sentences with this pattern")
	lower := flag.Bool("lower", false, "write the counts as the new ceilings if they are lower")
	sample := flag.Int("sample", 0, "print this many random sentences of all texts, drawn by -seed")
	seed := flag.Int64("seed", 1, "seed of -sample")
	flag.Parse()
	if err := run(*root, *list, *lower, *sample, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func run(root, list string, lower bool, sample int, seed int64) error {
	all, err := readTexts(root)
	if err != nil {
		return err
	}
	if sample > 0 {
		for _, s := range draw(all, sample, seed) {
			fmt.Printf("%s:%d: [%s] %s\n", s.file, s.line, s.surface, s.text)
		}
		return nil
	}
	checked := slices.DeleteFunc(slices.Clone(all), func(s sentence) bool { return !s.counted() })
	if list != "" {
		return show(checked, list)
	}
	path := filepath.Join(root, "tools/prose/ceilings.txt")
	ceilings, err := readCeilings(path)
	if err != nil {
		return err
	}
	counts := countAll(checked)
	if lower {
		return writeCeilings(path, ceilings, counts)
	}
	findings, notes := compare(ceilings, counts)
	for _, line := range append(notes, findings...) {
		fmt.Fprintln(os.Stderr, line)
	}
	subjects := checkSubjects(root)
	for _, line := range subjects {
		fmt.Fprintln(os.Stderr, line)
	}
	if len(findings)+len(subjects) > 0 {
		return fmt.Errorf("%d patterns exceed their ceilings, and %d subjects of commits are wrong",
			len(findings), len(subjects))
	}
	return nil
}

// show prints each sentence with a pattern.
func show(all []sentence, name string) error {
	i := slices.IndexFunc(limits, func(l limit) bool { return l.name == name })
	if i < 0 {
		var names []string
		for _, l := range limits {
			names = append(names, l.name)
		}
		return fmt.Errorf("unknown pattern %q: use one of %s", name, strings.Join(names, ", "))
	}
	for _, s := range all {
		if limits[i].count(s) > 0 {
			fmt.Printf("%s:%d: [%s] %s\n", s.file, s.line, s.surface, s.text)
		}
	}
	return nil
}

// countAll counts each pattern in all sentences.
func countAll(all []sentence) map[string]int {
	counts := map[string]int{}
	for _, s := range all {
		for _, l := range limits {
			counts[l.name] += l.count(s)
		}
	}
	return counts
}

// draw selects random sentences. Each surface gets an equal part, so that the many errors do not hide the few pages.
func draw(all []sentence, most int, seed int64) (drawn []sentence) {
	bySurface := map[surface][]sentence{}
	for _, s := range all {
		if s.surface != archive && len(strings.Fields(s.text)) >= leastWords {
			bySurface[s.surface] = append(bySurface[s.surface], s)
		}
	}
	random := rand.New(rand.NewSource(seed))
	for i, of := range sampled {
		here := bySurface[of]
		random.Shuffle(len(here), func(a, b int) { here[a], here[b] = here[b], here[a] })
		part := most / len(sampled)
		if i < most%len(sampled) {
			part++
		}
		drawn = append(drawn, here[:min(part, len(here))]...)
	}
	return drawn
}

// leastWords is the minimum number of words of a drawn text, because a label is no sentence.
const leastWords = 4
