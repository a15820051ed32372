// Package table writes the tables of the benchmarks.
package table

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// A Table is printed as Markdown with columns of equal width: readable on a terminal, and ready for
// the docs.
type Table struct {
	Head []string
	Rows [][]string
}

// Add adds a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Write prints the table and an empty line.
func (t *Table) Write(w io.Writer) error {
	widths := make([]int, len(t.Head))
	for _, row := range append([][]string{t.Head}, t.Rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(widths))
	for i, n := range widths {
		rule[i] = strings.Repeat("-", n)
	}
	var b strings.Builder
	for _, row := range slices.Concat([][]string{t.Head, rule}, t.Rows) {
		for i, cell := range row {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
	}
	_, err := fmt.Fprintln(w, b.String())
	return err
}

// Median returns the median of a few figures.
func Median(figures []float64) float64 {
	return slices.Sorted(slices.Values(figures))[len(figures)/2]
}

// A Spread is the median and the range of a figure over the rounds.
type Spread struct {
	Median float64 `json:"median"`
	Low    float64 `json:"low"`
	High   float64 `json:"high"`
}

// SpreadOf returns the median and the range of at least one figure.
func SpreadOf(figures []float64) Spread {
	return Spread{Median(figures), slices.Min(figures), slices.Max(figures)}
}

// String returns the median with the range in parentheses, or a dash if there is no figure.
func (s Spread) String() string {
	if s.High == 0 {
		return "–"
	}
	return fmt.Sprintf("%s (%s–%s)", Digits(s.Median), Digits(s.Low), Digits(s.High))
}

// Digits formats a figure with about three digits.
func Digits(x float64) string {
	switch {
	case x >= 100:
		return thousands(fmt.Sprintf("%.0f", x))
	case x >= 10:
		return fmt.Sprintf("%.1f", x)
	}
	return fmt.Sprintf("%.2f", x)
}

func thousands(s string) string {
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
