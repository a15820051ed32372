package main

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/effectively-once/once/bench/table"
)

// The parts of a figure.
func requests(f figure) float64 { return f.requests }
func writes(f figure) float64   { return f.writes }
func reads(f figure) float64    { return f.reads }
func price(f figure) float64    { return f.price }
func cpu(f figure) float64      { return f.cpu }

// report prints the medians of the rounds, and the medians of the rounds' ratios to both peers, as
// a table for the docs.
func report(clients []client, figures [][]figure) error {
	t := table.Table{Head: []string{"", "requests", "write units", "read units", "price", "CPU, ms", "CPU beside Python, TypeScript", "price beside them"}}
	for i, c := range clients {
		of := figures[i]
		row := []string{
			c.name, aimed(c.aim.requests, middle(of, requests)), aimed(c.aim.writes, middle(of, writes)),
			aimed(nil, middle(of, reads)), aimed(nil, middle(of, price)), aimed(nil, middle(of, cpu)), "", "",
		}
		if c.against != "" {
			python, typescript := peers(clients, figures, c.against)
			row[6], row[7] = beside(of, python, typescript, cpu, c.aim.cpu), beside(of, python, typescript, price, c.aim.price)
		}
		t.Add(row...)
	}
	return t.Write(os.Stdout)
}

// aimed formats figures, and marks those that exceed the aim.
func aimed(aim *float64, figures ...float64) string {
	texts := make([]string, len(figures))
	for i, x := range figures {
		texts[i] = fmt.Sprintf("%.2f", x)
	}
	text := strings.Join(texts, ", ")
	switch {
	case aim == nil:
		return text
	case above(slices.Max(figures), *aim):
		return fmt.Sprintf("%s (aim %g: **not held**)", text, *aim)
	default:
		return fmt.Sprintf("%s (aim %g)", text, *aim)
	}
}

// above compares sums of counts, which are not exact.
func above(figure, aim float64) bool { return figure > aim+1e-9 }

// middle returns the median of one part of the figures over the rounds.
func middle(figures []figure, of func(figure) float64) float64 {
	list := make([]float64, len(figures))
	for i, f := range figures {
		list[i] = of(f)
	}
	return table.Median(list)
}

// beside returns the ratios to both peers.
func beside(ours, python, typescript []figure, of func(figure) float64, aim *float64) string {
	return aimed(aim, ratio(ours, python, of), ratio(ours, typescript, of))
}

// ratio returns the median of the rounds' ratios.
func ratio(ours, peer []figure, of func(figure) float64) float64 {
	list := make([]float64, len(ours))
	for i := range ours {
		list[i] = of(ours[i]) / of(peer[i])
	}
	return table.Median(list)
}

// peers returns the rounds of both peers for a case.
func peers(clients []client, figures [][]figure, which string) (python, typescript []figure) {
	var found [][]figure
	for i, c := range clients {
		if c.against == "" && c.command[len(c.command)-1] == which {
			found = append(found, figures[i])
		}
	}
	return found[0], found[1]
}
