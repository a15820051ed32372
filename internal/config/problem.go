package config

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one error in a configuration.
type Problem struct {
	File string `json:"file"`
	// Line starts at 1.
	Line int `json:"line"`
	// Path is the field, such as streams.chat.gap.after; it is empty if the problem concerns the
	// whole file.
	Path string `json:"path"`
	// Rule is the rule that the value breaks.
	Rule string `json:"rule"`
}

// String returns file:line: path: rule.
func (p Problem) String() string {
	if p.Path == "" {
		return fmt.Sprintf("%s:%d: %s", p.File, p.Line, p.Rule)
	}
	return fmt.Sprintf("%s:%d: %s: %s", p.File, p.Line, p.Path, p.Rule)
}

// InvalidError lists all problems of a configuration, by line.
type InvalidError struct{ Problems []Problem }

// Error returns one problem per line.
func (e *InvalidError) Error() string {
	lines := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// problems collects problems.
type problems struct {
	file string
	list []Problem
}

func (p *problems) add(line int, path, rule string, args ...any) {
	p.list = append(p.list, Problem{File: p.file, Line: line, Path: path, Rule: fmt.Sprintf(rule, args...)})
}

func (p *problems) err() error {
	if len(p.list) == 0 {
		return nil
	}
	slices.SortStableFunc(p.list, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Path, b.Path))
	})
	return &InvalidError{Problems: p.list}
}
