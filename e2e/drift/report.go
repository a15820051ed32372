package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
)

// difference is a property that a template asks for and that isn't there; without a path, the whole resource is missing.
type difference struct{ kind, path, id string }

// rule is how a list of expected differences names it: by type, not by resource.
func (d difference) rule() string { return strings.TrimSpace(d.kind + " " + d.path) }

// report counts what was compared.
type report struct {
	resources, described, kept int
	dropped                    []difference
	blind                      []string          // properties that no service reports
	expected                   map[string]string // differences by rule, with their reasons
}

func (r *report) add(other report) {
	r.resources += other.resources
	r.described += other.described
	r.kept += other.kept
	r.dropped = append(r.dropped, other.dropped...)
	r.blind = append(r.blind, other.blind...)
}

// print lists every difference and fails on those that nobody expects.
func (r *report) print(out io.Writer) error {
	if r.described == 0 {
		return errors.New("nothing was compared")
	}
	var p printer
	p.line(out, "%d resources exist; of %d all properties were compared, %d are as asked for", r.resources, r.described, r.kept)
	unexpected, used := 0, map[string]bool{}
	for _, d := range r.dropped {
		used[d.rule()] = true
		reason, ok := r.expected[d.rule()]
		if !ok {
			unexpected++
			reason = "NOT EXPECTED"
		}
		p.line(out, "dropped: %s (%s): %s", d.rule(), d.id, reason)
	}
	slices.Sort(r.blind)
	for _, property := range slices.Compact(r.blind) {
		p.line(out, "not reported by the service, not compared: %s", property)
	}
	for rule := range r.expected {
		if !used[rule] {
			p.line(out, "expected, but not found: %s", rule)
		}
	}
	if unexpected > 0 {
		return fmt.Errorf("%d differences are not expected", unexpected)
	}
	return p.err
}

// printer keeps the first error of writing lines.
type printer struct{ err error }

func (p *printer) line(out io.Writer, format string, args ...any) {
	if _, err := fmt.Fprintf(out, format+"\n", args...); p.err == nil {
		p.err = err
	}
}

// readExpected reads a list of expected differences: "TYPE PROPERTY # reason" or "TYPE # reason" a line.
func readExpected(path string) (map[string]string, error) {
	expected := map[string]string{}
	if path == "" {
		return expected, nil
	}
	file, err := os.Open(path) //nolint:gosec // whoever runs this names the file
	if err != nil {
		return nil, fmt.Errorf("read expected differences: %w", err)
	}
	defer file.Close() //nolint:errcheck // it is only read
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		rule, reason, _ := strings.Cut(lines.Text(), "#")
		if rule = strings.Join(strings.Fields(rule), " "); rule == "" {
			continue
		}
		if reason = strings.TrimSpace(reason); reason == "" {
			return nil, fmt.Errorf("read expected differences: %s: no reason given for %s", path, rule)
		}
		expected[rule] = reason
	}
	return expected, lines.Err()
}
