// Command synapse-sim is a stand-in with the real one's flags and output.
package main

import (
	"flag"
	"fmt"
	"os"

	"toy/world"
)

func main() {
	size := flag.String("world", "", "")
	seed := flag.Int("seed", 0, "")
	flag.Parse()
	if *size != "small" {
		os.Exit(3)
	}
	violations := 0
	if world.Admit(*seed) && *seed%3 == 0 {
		violations = 1
		fmt.Println("violation: T1 admission: let in what it must not")
	}
	fmt.Printf("seed=%d trace=%d steps=1 gangs=1 faults=0 violations=%d\n", *seed, world.Trace(), violations)
	if violations > 0 {
		os.Exit(1)
	}
}
