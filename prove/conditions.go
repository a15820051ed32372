package main

import (
	"bufio"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// removeConditions takes each condition out of each conditional write, one at a time, and lets the tests find out.
func removeConditions(ctx context.Context, o options) error {
	cmd := exec.CommandContext(ctx, "go", "test", "./internal/explore/mistakes", "-count=1", "-v", "-timeout", "2h", "-run", "^TestEveryConditionOfAConditionalWriteIsTested$", "-conditions", "")
	cmd.Dir = o.root
	out, err := cmd.CombinedOutput()
	killed, survived := 0, 0
	lines := bufio.NewScanner(strings.NewReader(string(out)))
	for lines.Scan() {
		switch line := strings.TrimSpace(lines.Text()); {
		case strings.Contains(line, ": killed "):
			killed++
		case strings.Contains(line, ": survives "):
			survived++
			_, what, _ := strings.Cut(line, ": survives ")
			fmt.Println("  survives, for a reason:", what)
		}
	}
	fmt.Printf("  %d conditions, %d found by a test, %d survive for a reason\n", killed+survived, killed, survived)
	if err != nil {
		return fmt.Errorf("%w\n%s", err, out)
	}
	return nil
}
