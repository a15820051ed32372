package room

import (
	"cmp"
	"fmt"
	"html"
	"io"
	"slices"
	"strings"
	"time"
)

// A Trace is where and when a line was written, and when each region's screen showed it.
type Trace struct {
	Line
	Written time.Time
	Shown   map[string]time.Time
}

// Measures of a diagram, in pixels.
const (
	diagramWidth = 1200
	diagramLeft  = 90
	diagramTop   = 40
	diagramRow   = 90
)

// Diagram draws a space-time diagram as SVG: a row for each region, time from left to right, a dot
// where a line was written, and an arrow to where and when another region showed it. Arrows of
// answers are dark.
func Diagram(w io.Writer, regions []string, traces []Trace) error {
	d := diagram{regions: regions, traces: slices.Clone(traces)}
	slices.SortFunc(d.traces, func(a, b Trace) int { return a.Written.Compare(b.Written) })
	for i, t := range d.traces {
		if i == 0 {
			d.begin = t.Written
		}
		for _, at := range t.Shown {
			d.length = max(d.length, at.Sub(d.begin))
		}
	}
	d.length = cmp.Or(d.length, time.Second)
	_, err := io.WriteString(w, d.svg())
	return err
}

type diagram struct {
	regions []string
	begin   time.Time
	length  time.Duration
	traces  []Trace
}

func (d *diagram) x(at time.Time) int {
	return diagramLeft + int((diagramWidth-diagramLeft-20)*at.Sub(d.begin)/d.length)
}

func (d *diagram) y(region string) int {
	return diagramTop + diagramRow*slices.Index(d.regions, region)
}

func (d *diagram) svg() string {
	height := diagramTop + diagramRow*len(d.regions)
	var out strings.Builder
	fmt.Fprintf(&out, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="12">
<rect width="100%%" height="100%%" fill="white"/>
<defs><marker id="tip" markerWidth="7" markerHeight="7" refX="6" refY="3" orient="auto"><path d="M0,0 L7,3 L0,6 z" fill="context-stroke"/></marker></defs>
`, diagramWidth, height)
	for _, r := range d.regions {
		fmt.Fprintf(&out, "<text x=\"6\" y=\"%d\">%s</text><path d=\"M%d,%d H%d\" stroke=\"#999\"/>\n", d.y(r)+4, html.EscapeString(r), diagramLeft, d.y(r), diagramWidth-20)
	}
	for i := range 5 {
		at := d.begin.Add(d.length * time.Duration(i) / 5)
		fmt.Fprintf(&out, "<text x=\"%d\" y=\"%d\" fill=\"#777\">%s</text>\n", d.x(at), height-20, at.Sub(d.begin).Round(time.Millisecond))
	}
	for i := range d.traces {
		d.trace(&out, &d.traces[i])
	}
	out.WriteString("</svg>\n")
	return out.String()
}

func (d *diagram) trace(out *strings.Builder, t *Trace) {
	colour := "#9bc"
	if len(t.Answers) > 0 {
		colour = "#247"
	}
	for _, r := range d.regions {
		if at, ok := t.Shown[r]; ok && r != t.Region {
			fmt.Fprintf(out, "<path d=\"M%d,%d L%d,%d\" stroke=\"%s\" marker-end=\"url(#tip)\"/>\n", d.x(t.Written), d.y(t.Region), d.x(at), d.y(r), colour)
		}
	}
	fmt.Fprintf(out, "<circle cx=\"%d\" cy=\"%d\" r=\"4\" fill=\"%s\"><title>%s</title></circle>\n",
		d.x(t.Written), d.y(t.Region), colour, html.EscapeString(t.By+": "+t.Text))
}
