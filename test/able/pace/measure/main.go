// Command measure prints how many times slower than usual this machine is, for tools/testrun.
package main

import (
	"fmt"

	"github.com/yi-json/synapse/test/able/pace"
)

// main prints the factor.
func main() { fmt.Println(pace.Factor()) }
