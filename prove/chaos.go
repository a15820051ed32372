package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// A chaosVerdict is the content of verdict.json, which the judge of e2e/chaos writes.
type chaosVerdict struct {
	Form                                                                               string
	Offered, Accepted, Applied, Sent, Repeated, Refused, Answers, Lost, Doubled, Wrong int
	Faults                                                                             map[string]int
	Seconds                                                                            float64
}

// chaosForms returns, for each system, the number of offered messages and the mean time between
// faults.
func chaosForms(long bool) []chaosForm {
	if long {
		return []chaosForm{{"embedded", chaosEmbedded, 1_000_000, "1s", 128}, {"functions", chaosFunctions, 50_000, "1s", 64}}
	}
	return []chaosForm{{"embedded", chaosEmbedded, 5_000, "400ms", 32}, {"functions", chaosFunctions, 400, "400ms", 32}}
}

// The tests of e2e that are the chaos runs.
const (
	chaosEmbedded  = "TestChaosLeavesEveryMessageWithOneEffect"
	chaosFunctions = "TestChaosOnFunctionsLeavesEveryMessageWithOneEffect"
)

type chaosForm struct {
	name     string
	test     string
	messages int
	every    string // mean time between two faults
	clients  int
}

// chaos sends messages to the product, built as e2e/chaos_build_test.go describes, while all kinds
// of faults are injected concurrently. Then a judge that shares no code with the product counts the
// effects. The evidence stays in bin/chaos.
func chaos(ctx context.Context, o options) error {
	folder, err := filepath.Abs(filepath.Join(o.root, "bin", "chaos"))
	if err != nil {
		return err
	}
	var errs []error
	var verdicts []*chaosVerdict
	for _, f := range chaosForms(o.long) {
		v, err := f.run(ctx, o.root, folder)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", f.name, err))
		}
		if v != nil {
			verdicts = append(verdicts, v)
		}
	}
	fmt.Printf("  %-10s %9s %9s %9s %9s %9s %8s %6s %8s %6s %8s\n", "", "offered", "accepted", "applied", "sent", "repeated", "refused", "lost", "doubled", "wrong", "time")
	for _, v := range verdicts {
		fmt.Printf("  %-10s %9d %9d %9d %9d %9d %8d %6d %8d %6d %7.0fs\n", v.Form, v.Offered, v.Accepted, v.Applied, v.Sent, v.Repeated, v.Refused, v.Lost, v.Doubled, v.Wrong, v.Seconds)
	}
	for _, v := range verdicts {
		fmt.Printf("  judge the evidence again: go -C e2e run ./chaos/judge %s\n", filepath.Join(folder, v.Form))
	}
	return errors.Join(errs...)
}

// run runs the test, prints its progress, and returns the verdict.
func (f chaosForm) run(ctx context.Context, root, folder string) (*chaosVerdict, error) {
	args := []string{
		"go", "test", "-count=1", "-v", "-timeout=24h", "-run=^" + f.test + "$", ".",
		"-messages=" + strconv.Itoa(f.messages), "-chaos-functions=" + strconv.Itoa(f.messages), "-chaos-every=" + f.every, "-chaos-clients=" + strconv.Itoa(f.clients), "-chaos-keep=" + folder,
	}
	if f.name == "functions" {
		args = emulated("../localstack/aws.sh", args)
	}
	if err := os.RemoveAll(filepath.Join(folder, f.name)); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...) //nolint:gosec // this repository's own test
	cmd.Dir = filepath.Join(root, "e2e")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	last := follow(bufio.NewScanner(out))
	if err := cmd.Wait(); err != nil {
		err = fmt.Errorf("%w\n%s%s", err, last, stderr.String())
		// there is no verdict if the test failed early
		v, _ := readVerdict(filepath.Join(folder, f.name))
		return v, err
	}
	return readVerdict(filepath.Join(folder, f.name))
}

// follow prints the lines of progress, and returns the other lines, which describe failures.
func follow(lines *bufio.Scanner) string {
	var wrong strings.Builder
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		place, said, ok := strings.Cut(lines.Text(), "chaos: ")
		switch {
		case ok:
			fmt.Println("  " + said)
		case strings.Contains(place, "_test.go:"):
			wrong.WriteString(strings.TrimSpace(place) + "\n")
		case strings.Contains(place, "--- SKIP"):
			wrong.WriteString("skipped\n")
		}
	}
	return wrong.String()
}

func readVerdict(folder string) (*chaosVerdict, error) {
	text, err := os.ReadFile(filepath.Join(folder, "verdict.json")) //nolint:gosec // the test has just written it
	if err != nil {
		return nil, fmt.Errorf("no verdict: %w", err)
	}
	var v chaosVerdict
	return &v, json.Unmarshal(text, &v)
}
