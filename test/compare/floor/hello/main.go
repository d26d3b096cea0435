// Command hello prints one line. Its cost is the minimum cost of any program in Go.
package main

import "fmt"

func main() { fmt.Println("hello") }
