package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// A score is the result for one package whose conditions were removed.
type score struct {
	of                   string
	found, reason, still int // found by a test, surviving with a reason, surviving without
	seconds              float64
	// hidden is the reason why the package was not, or not fully, tested.
	hidden string
}

// removeConditions removes each condition of each conditional write, one at a time, and runs the
// tests. It starts the emulators that some of the tests need, unless the environment names others.
func removeConditions(ctx context.Context, o options) error {
	const test = "TestEveryConditionOfAConditionalWriteIsTested"
	args := []string{"go", "test", "./explore/mistakes", "-count=1", "-json", "-timeout=4h", "-run=^" + test + "$", "-conditions="}
	args = emulated("../localstack/aws.sh", args)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = filepath.Join(o.root, "prove")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	scores, said, err := scoresOf(out, test+"/")
	if err = errors.Join(err, cmd.Wait()); err != nil {
		err = fmt.Errorf("%w\n%s%s", err, said, stderr.String())
	}
	printScores(scores)
	for _, s := range scores {
		if s.hidden != "" {
			err = errors.Join(err, fmt.Errorf("%s is not shown: %s", s.of, s.hidden))
		}
	}
	if err != nil {
		return err
	}
	return o.documented("conditions", scoreTable(scores))
}

// scoresOf reads the events of the test and returns a score for each package. It prints survivors
// as they arrive. said is the rest of the output, which describes failures.
func scoresOf(events io.Reader, prefix string) (scores []*score, said string, err error) {
	var wrong strings.Builder
	by := map[string]*score{}
	err = eachEvent(events, func(e event) {
		of, ok := strings.CutPrefix(e.Test, prefix)
		if !ok {
			if e.Action == "build-output" {
				wrong.WriteString(e.Output)
			}
			return
		}
		s := by[of]
		if s == nil {
			s = &score{of: of, hidden: "it did not come to its end"}
			by[of], scores = s, append(scores, s)
		}
		wrong.WriteString(s.take(e.Action, e.Output, e.Elapsed))
	})
	return scores, wrong.String(), err
}

// take counts an event, and returns its output if it describes a failure.
func (s *score) take(action, output string, elapsed float64) (wrong string) {
	switch action {
	case "pass", "fail":
		s.seconds = elapsed
		if s.hidden = ""; s.found+s.reason+s.still == 0 {
			s.hidden = "its conditions were not removed"
		}
	case "skip":
		s.hidden = "it was skipped: " + s.hidden
	case "output":
		line := strings.TrimSpace(output)
		_, survives, survived := strings.Cut(line, ": survives ")
		switch {
		case strings.Contains(line, ": killed "):
			s.found++
		case survived:
			s.reason++
			fmt.Printf("  %s survives, for a reason: %s\n", s.of, survives)
		case strings.Contains(line, ": no test fails without "):
			s.still++
			fmt.Printf("  %s: %s\n", s.of, line)
			return line + "\n"
		case strings.HasSuffix(line, " is not set"):
			_, s.hidden, _ = strings.Cut(line, ": ")
		case !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") && !strings.Contains(line, " conditions removed"):
			return line + "\n"
		}
	}
	return ""
}

// printScores prints a table of the scores. Its last line counts the packages without a result, so
// that they do not count as tested.
func printScores(scores []*score) {
	slices.SortFunc(scores, func(a, b *score) int { return strings.Compare(a.of, b.of) })
	fmt.Printf("  %-32s %10s %15s %21s %8s\n", "package", "conditions", "found by a test", "survive for a reason", "time")
	all, hidden := score{}, 0
	for _, s := range scores {
		if s.hidden != "" {
			hidden++
			fmt.Printf("  %-32s not shown: %s\n", s.of, s.hidden)
			continue
		}
		fmt.Printf("  %-32s %10d %15d %21d %7.0fs\n", s.of, s.found+s.reason+s.still, s.found, s.reason, s.seconds)
		all.found, all.reason, all.still = all.found+s.found, all.reason+s.reason, all.still+s.still
	}
	fmt.Printf("  %-32s %10d %15d %21d\n", "all", all.found+all.reason+all.still, all.found, all.reason)
	fmt.Printf("  %d packages, %d of them not shown; %d conditions whose removal no test finds, without a reason\n", len(scores), hidden, all.still)
}

// scoreTable returns the table of conditions for the documentation.
func scoreTable(scores []*score) string {
	var b strings.Builder
	b.WriteString("| package | conditions | found by a test | survive for a reason |\n|---|---|---|---|\n")
	for _, s := range scores {
		fmt.Fprintf(&b, "| `%s` | %d | %d | %d |\n", s.of, s.found+s.reason, s.found, s.reason)
	}
	return b.String()
}
