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

// difference is a property of a template that is not deployed; without a path, the whole resource
// is missing.
type difference struct{ kind, path, id string }

// rule returns the name of the difference in a list of expected ones: by type, not by resource.
func (d difference) rule() string { return strings.TrimSpace(d.kind + " " + d.path) }

// report counts the compared properties.
type report struct {
	resources, described, kept int
	dropped                    []difference
	blind                      []string          // properties that no service reports
	unlooked                   []string          // types of which only existence is compared
	expected                   map[string]string // differences by rule, with their reasons
}

func (r *report) add(other report) {
	r.resources += other.resources
	r.described += other.described
	r.kept += other.kept
	r.dropped = append(r.dropped, other.dropped...)
	r.blind = append(r.blind, other.blind...)
	r.unlooked = append(r.unlooked, other.unlooked...)
}

// print prints every difference and fails on unexpected ones.
func (r *report) print(out io.Writer) error {
	if r.described == 0 {
		return errors.New("nothing was compared")
	}
	var p printer
	p.line(out, "%d resources exist; of %d every property was compared that their services report, %d are as asked for", r.resources, r.described, r.kept)
	unexpected, used := 0, map[string]bool{}
	for _, d := range r.dropped {
		rule, ok := r.expects(d)
		used[rule] = true
		reason := r.expected[rule]
		if !ok {
			unexpected++
			reason = "NOT EXPECTED"
		}
		p.line(out, "dropped: %s (%s): %s", d.rule(), d.id, reason)
	}
	p.set(out, "exist, and nothing else is known", r.unlooked)
	p.set(out, "not reported by the service, not compared", r.blind)
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

// expects returns the rule that covers a difference: its own, or that of an enclosing property.
func (r *report) expects(d difference) (string, bool) {
	rule := d.rule()
	for {
		if _, ok := r.expected[rule]; ok {
			return rule, true
		}
		end := strings.LastIndex(rule, ".")
		if end < 0 {
			return "", false
		}
		rule = rule[:end]
	}
}

// printer keeps the first error of writing lines.
type printer struct{ err error }

func (p *printer) line(out io.Writer, format string, args ...any) {
	if _, err := fmt.Fprintf(out, format+"\n", args...); p.err == nil {
		p.err = err
	}
}

// set prints the distinct values of a list on one line.
func (p *printer) set(out io.Writer, title string, list []string) {
	slices.Sort(list)
	if list = slices.Compact(list); len(list) > 0 {
		p.line(out, "%s: %s", title, strings.Join(list, ", "))
	}
}

// readExpected reads a list of expected differences, one per line: "TYPE PROPERTY # reason" for a
// property with all its parts, or "TYPE # reason" for resources that can't be created.
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
