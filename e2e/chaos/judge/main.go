// Command judge judges the evidence of a chaos run: go run ./chaos/judge FOLDER. It prints the
// verdict as JSON, and exits with 1 if there is a violation.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/effectively-once/once/e2e/chaos"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: judge FOLDER")
		os.Exit(2)
	}
	verdict, err := chaos.Judge(os.Args[1])
	if err != nil {
		fmt.Fprintln(os.Stderr, "judge:", err)
		os.Exit(2)
	}
	out := json.NewEncoder(os.Stdout)
	out.SetIndent("", "  ")
	if err := out.Encode(verdict); err != nil || !verdict.OK() {
		os.Exit(1)
	}
}
