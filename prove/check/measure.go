package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
)

// numbers are measured, by the names of prove/check/budgets.yaml.
type numbers map[string]float64

// A measurement returns some of the numbers.
type measurement func(ctx context.Context, t *tree) (numbers, error)

// measurements returns those that read files, and those that build. binary is the program whose
// size is measured; if it is empty, it is built.
func measurements(binary string) (quick, building []measurement) {
	return []measurement{shippedLines, pageWords, internalFolders, exceptions, keptRealTime},
		[]measurement{linkedPackages, binarySize(binary), allocations, units}
}

// measure joins the numbers of all measurements.
func measure(ctx context.Context, t *tree, all []measurement) (numbers, error) {
	got := numbers{}
	for _, m := range all {
		some, err := m(ctx, t)
		if err != nil {
			return nil, err
		}
		maps.Copy(got, some)
	}
	return got, nil
}

// unshipped reports whether no user builds or deploys a Go file.
func unshipped(name string) bool {
	for _, folder := range []string{"bench/", "e2e/", "prove/", "examples/", "localstack/", "internal/testkit/"} {
		if strings.HasPrefix(name, folder) {
			return true
		}
	}
	return forTests(name)
}

func shippedLines(_ context.Context, t *tree) (numbers, error) {
	lines := 0
	err := t.each(".go", func(name string, text []byte) error {
		if !unshipped(name) {
			lines += bytes.Count(text, []byte("\n"))
		}
		return nil
	})
	return numbers{"shipped-go-lines": float64(lines)}, err
}

func pageWords(_ context.Context, t *tree) (numbers, error) {
	all, largest := 0, 0
	err := t.each(".md", func(_ string, text []byte) error {
		words := len(bytes.Fields(text))
		all, largest = all+words, max(largest, words)
		return nil
	})
	return numbers{"page-words": float64(all), "largest-page-words": float64(largest)}, err
}

func internalFolders(_ context.Context, t *tree) (numbers, error) {
	folders := map[string]bool{}
	for _, name := range t.files {
		if parts := strings.Split(name, "/"); len(parts) > 2 && parts[0] == "internal" {
			folders[parts[1]] = true
		}
	}
	return numbers{"internal-folders": float64(len(folders))}, nil
}

// exceptions counts the comments that silence a linter.
func exceptions(_ context.Context, t *tree) (numbers, error) {
	n := 0
	err := t.each(".go", func(_ string, text []byte) error {
		n += bytes.Count(text, []byte("//"+"nolint"))
		return nil
	})
	return numbers{"linter-exceptions": float64(n)}, err
}

func linkedPackages(ctx context.Context, t *tree) (numbers, error) {
	list, err := t.command(ctx, "env", "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "go", "list", "-deps", "./cmd/once")
	return numbers{"linked-packages": float64(len(strings.Fields(list)))}, err
}

// binarySize measures a program, or builds one as that of a release, but with symbols.
func binarySize(binary string) measurement {
	return func(ctx context.Context, t *tree) (_ numbers, err error) {
		binary := binary
		if binary == "" {
			dir, err := os.MkdirTemp("", "once-size-")
			if err != nil {
				return nil, err
			}
			defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
			binary = filepath.Join(dir, "once")
			if _, err := t.command(ctx, "env", "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0", "go", "build", "-trimpath", "-buildvcs=false", "-o", binary, "./cmd/once"); err != nil {
				return nil, err
			}
		}
		info, err := os.Stat(binary)
		if err != nil {
			return nil, err
		}
		return numbers{"binary-bytes": float64(info.Size())}, nil
	}
}

// allocations runs the benchmarks that count those of one message, and measure no time.
func allocations(ctx context.Context, t *tree) (numbers, error) {
	out, err := t.command(ctx, "go", "test", "-run", "^$", "-bench", "^BenchmarkMessage(ToFile|Accepted)$", "-benchtime", "20x", "./internal/system/embedded")
	if err != nil {
		return nil, err
	}
	return matches(out, allocationLine, allocationNames())
}

// The lines of outputs that have a number.
const (
	allocationLine = `(?m)^BenchmarkMessage(\w+?)(?:-\d+)?\s.*?([\d.]+) allocs/message`
	unitLine       = `(?m)^\s*=== ATTR +\S+ ((?:read|write)-units-\S+) (\d+)$`
)

func allocationNames() map[string]string {
	return map[string]string{"ToFile": "allocations-http-to-file", "Accepted": "allocations-http-202"}
}

// units runs the test that counts the records which a message reads and writes.
func units(ctx context.Context, t *tree) (numbers, error) {
	out, err := t.command(ctx, "go", "test", "-count=1", "-v", "-run", "^TestTheUnitsOfAMessageOnDynamoDB$", "./internal/dedup")
	if err != nil {
		return nil, err
	}
	return matches(out, unitLine, nil)
}

// matches returns the numbers in the output of a test, by the first group of the pattern. names
// maps it to the names of the budgets.
func matches(output, pattern string, names map[string]string) (numbers, error) {
	got := numbers{}
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(output, -1) {
		n, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			return nil, err
		}
		name, ok := names[m[1]]
		if !ok {
			name = m[1]
		}
		got[name] = n
	}
	if len(got) == 0 {
		return nil, fmt.Errorf("no number is in the output:\n%s", output)
	}
	return got, nil
}
