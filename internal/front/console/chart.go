package console

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/effectively-once/once/internal/admin/plain"
)

// Rates are the charts of the last minutes.
type Rates struct {
	// Step is the time that each value is for.
	Step time.Duration
	// Steps is how many values a line has at most.
	Steps  int
	Charts []Chart
	// Note says from where the values are, and which are missing. Optional.
	Note string
}

// A Chart has lines over the same time.
type Chart struct {
	Name  string
	Unit  Unit
	Lines []Line
}

// A Line has values in the order of time. The last ones of all lines are for the same time. A value
// that does not exist is NaN.
type Line struct {
	Name   string
	Values []float64
}

// A Unit is the unit of values.
type Unit string

// The units.
const (
	PerSecond Unit = "/s"
	Seconds   Unit = "s"
)

// The size of a chart in its own coordinates. The page stretches it.
const (
	chartWidth  = 240.0
	chartHeight = 48.0
	chartMargin = 2.0 // above and below a line
)

// rates returns the charts of a stream, or of all streams for the empty name.
func (c *console) rates(ctx context.Context, stream string) (*charts, error) {
	if c.Rates == nil {
		return nil, nil //nolint:nilnil // the page has no charts then
	}
	r, err := c.Rates(ctx, stream)
	if err != nil {
		return nil, err
	}
	out := &charts{Note: r.Note, Minutes: int((r.Step*time.Duration(r.Steps) + time.Minute/2) / time.Minute)}
	out.Table.Rows = make([][]string, out.Minutes)
	for i := range out.Table.Rows {
		out.Table.Rows[i] = []string{strconv.Itoa(i + 1)}
	}
	for i := range r.Charts {
		out.add(&r, &r.Charts[i])
	}
	return out, nil
}

// charts are the charts of a page, as its template shows them.
type charts struct {
	Note    string
	Minutes int
	Drawn   []drawn
	Table   struct {
		Head []string
		Rows [][]string // for each minute, the last one first
	}
}

// drawn is one chart.
type drawn struct {
	Name  string
	Lines []drawnLine
	Text  string // the values of the chart in words
	Wide  bool   // it has several lines
}

type drawnLine struct {
	Name, Now, Path string
}

func (c *charts) add(r *Rates, chart *Chart) {
	top := 0.0
	for _, line := range chart.Lines {
		if v := greatest(line.Values); v > top {
			top = v
		}
	}
	d := drawn{Name: chart.Name, Wide: len(chart.Lines) > 1}
	var texts []string
	for _, line := range chart.Lines {
		now := "–"
		if n := len(line.Values); n > 0 {
			now = format(line.Values[n-1], chart.Unit)
		}
		d.Lines = append(d.Lines, drawnLine{line.Name, now, trace(line.Values, r.Steps, top)})
		text := now + " now, " + format(greatest(line.Values), chart.Unit) + " at most"
		head := chart.Name
		if line.Name != "" {
			text, head = line.Name+" "+text, head+" "+line.Name
		}
		texts = append(texts, text)
		c.Table.Head = append(c.Table.Head, head)
		c.column(r, chart.Unit, line.Values)
	}
	d.Text = fmt.Sprintf("%s in the last %s: %s", chart.Name, plain.Plural(c.Minutes, "minute"), strings.Join(texts, "; "))
	c.Drawn = append(c.Drawn, d)
}

// column adds a line to the table: the mean of a rate in each minute, and the greatest of the
// percentiles.
func (c *charts) column(r *Rates, unit Unit, values []float64) {
	each := max(1, int(time.Minute/r.Step))
	for i := range c.Table.Rows {
		end := len(values) - i*each
		of := values[max(0, end-each):max(0, end)]
		v := greatest(of)
		if unit == PerSecond {
			v = mean(of)
		}
		c.Table.Rows[i] = append(c.Table.Rows[i], format(v, unit))
	}
}

// greatest returns the greatest value, NaN if there is none.
func greatest(values []float64) float64 {
	out := math.NaN()
	for _, v := range values {
		if !(v <= out) && !math.IsNaN(v) {
			out = v
		}
	}
	return out
}

// mean returns the mean, NaN if there are no values.
func mean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += v
	}
	return sum / float64(len(values))
}

// trace returns the path of a line. Its last value is at the right, also if there are fewer values
// than the chart has room for. The line has a hole for a value that does not exist.
func trace(values []float64, steps int, top float64) string {
	var out strings.Builder
	drawing := false
	for i, v := range values {
		if math.IsNaN(v) {
			drawing = false
			continue
		}
		x := chartWidth * float64(steps-len(values)+i) / float64(max(1, steps-1))
		y := chartHeight - chartMargin
		if top > 0 {
			y -= (chartHeight - 2*chartMargin) * v / top
		}
		command := "L"
		if !drawing {
			command = "M"
		}
		fmt.Fprintf(&out, "%s%.1f %.1f", command, x, y)
		if alone := i+1 == len(values) || math.IsNaN(values[i+1]); !drawing && alone {
			out.WriteString("h.1") // a dot
		}
		drawing = true
	}
	return out.String()
}

// format returns a value with its unit, with two or three digits.
func format(v float64, unit Unit) string {
	if math.IsNaN(v) {
		return "–"
	}
	if unit == PerSecond {
		return digits(v) + "/s"
	}
	switch {
	case v < 0.001:
		return digits(v*1e6) + " µs"
	case v < 1:
		return digits(v*1e3) + " ms"
	default:
		return digits(v) + " s"
	}
}

// digits returns a number that is not negative with three digits before the point, or one or two
// behind it.
func digits(v float64) string {
	switch {
	case v == 0:
		return "0"
	case v < 0.095:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.5:
		return strings.TrimSuffix(strconv.FormatFloat(v, 'f', 1, 64), ".0")
	default:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
}
