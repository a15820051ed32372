package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/effectively-once/once/bench/table"
)

// An aim is a row of the table: a figure of a case, and the least or the greatest that it may be.
type aim struct {
	name   string
	before string // measured before the work on speed began; empty if the case is new
	want   want
	figure func(r round) float64
	// of is the subject whose figure it is; floors and peers are shown beside it.
	of     string
	floors []string
	peers  []string
}

// A round has one sample of each subject.
type round map[string]sample

// A want is a bound: at least, or at most if negative.
type want float64

func (w want) String() string {
	if w < 0 {
		return "≤ " + table.Digits(-float64(w))
	}
	return "≥ " + table.Digits(float64(w))
}

// rateBeside is the rate of a subject, divided by that of another in the same round.
func rateBeside(of, other string) func(round) float64 {
	return func(r round) float64 { return r[of].Rate / r[other].Rate }
}

func rate(of string) func(round) float64 { return func(r round) float64 { return r[of].Rate } }

func cpuOf(of string) func(round) float64 { return func(r round) float64 { return r[of].CPU } }

// cpuBeside is the CPU time of a message of a subject, divided by that of another in the same
// round.
func cpuBeside(of, other string) func(round) float64 {
	return func(r round) float64 { return r[of].CPU / r[other].CPU }
}

// amplification is the number of bytes that are written for each byte of a body.
func amplification(of string) func(round) float64 {
	return func(r round) float64 { return r[of].Disk / bodyBytes }
}

func aims() []aim {
	claims := []string{bolt, alwaysIDs, lazilyIDs}
	through := []string{alwaysThrough, lazilyThrough}
	raw, web := []string{rawPut, rawLog}, []string{rawHTTP, rawHTTPPut}
	return []aim{
		{"rate beside a raw put", "0.23", 0.6, rateBeside(keyAlone, rawPut), keyAlone, raw, claims},
		{"rate beside a raw put", "0.26", 0.7, rateBeside(sequenceAlone, rawPut), sequenceAlone, raw, claims},
		{"messages a second", "590,000", 1.2e6, rate(sequenceBatch), sequenceBatch, raw, claims},
		{"rate beside raw puts", "", 10, rateBeside(sequenceBatch, rawPut), sequenceBatch, raw, claims},
		{"rate beside one at a time", "1.0", 3, rateBeside(keyBatch, keyAlone), keyBatch, raw, claims},
		{"time beside no log", "", -1.3, rateBeside(sequenceOne, sequenceOneLogged), sequenceOneLogged, nil, nil},
		{"time beside no log", "", -1.3, rateBeside(sequenceHundred, sequenceLogged), sequenceLogged, []string{chunkPut}, nil},
		{"CPU time beside no log", "", -1.3, cpuBeside(sequenceLogged, sequenceHundred), sequenceLogged, []string{chunkPut}, nil},
		{"time beside no log", "", -1.3, rateBeside(keyHundred, keyLogged), keyLogged, nil, nil},
		{"CPU time beside no log", "", -1.3, cpuBeside(keyLogged, keyHundred), keyLogged, nil, nil},
		{"time beside messages in order", "", -2, rateBeside(singleOrdered, singleShuffled), singleShuffled, nil, nil},
		{"CPU time beside messages in order", "", -2, cpuBeside(singleShuffled, singleOrdered), singleShuffled, nil, nil},
		{"time beside messages in order", "", -2, rateBeside(sequenceHundred, sequenceShuffled), sequenceShuffled, nil, nil},
		{"CPU time beside messages in order", "", -2, cpuBeside(sequenceShuffled, sequenceHundred), sequenceShuffled, nil, nil},
		{"CPU µs of the server", "236", -100, cpuOf(toFile), toFile, web, through},
		{"rate beside net/http and a put", "0.60", 0.85, rateBeside(accepted, rawHTTPPut), accepted, web, through},
		{"rate beside net/http and a put", "0.34", 0.7, rateBeside(toFile, rawHTTPPut), toFile, web, through},
		{"rate beside JetStream sync: always", "2–3", 6, rateBeside(toFileMany, alwaysThrough), toFileMany, web, through},
		{"messages a second", "", 60_000, rate(toFileBatch), toFileBatch, web, through},
		{"rate beside one at a time", "", 12, rateBeside(toFileBatch, toFile), toFileBatch, web, through},
		{"bytes written for one of the body", "4–8", -3, amplification(toFile), toFile, web, through},
	}
}

// A verdict is an aim with its figure.
type verdict struct {
	Case   string `json:"case"`
	Figure string `json:"figure"`
	Before string `json:"before,omitempty"`
	Aim    string `json:"aim"`
	table.Spread
	Held bool `json:"held"`
}

// judge returns the verdicts of all aims whose subjects were measured.
func judge(rounds []round) (out []verdict, judged []aim) {
	for _, a := range aims() {
		if _, ok := rounds[0][a.of]; !ok {
			continue
		}
		figures := make([]float64, len(rounds))
		for i, r := range rounds {
			figures[i] = a.figure(r)
		}
		s := table.SpreadOf(figures)
		held := s.Median >= float64(a.want)
		if a.want < 0 {
			held = s.Median <= -float64(a.want)
		}
		out, judged = append(out, verdict{a.of, a.name, a.before, a.want.String(), s, held}), append(judged, a)
	}
	return out, judged
}

// aimTable is the table of the aims. Figures of floors and peers are medians.
func aimTable(rounds []round) *table.Table {
	t := &table.Table{Head: []string{"case", "figure", "before", "aim", "measured", "floor", "peers"}}
	verdicts, judged := judge(rounds)
	for i, v := range verdicts {
		text := v.String()
		if !v.Held {
			text += " **not held**"
		}
		t.Add(v.Case, v.Figure, cmp.Or(v.Before, "–"), v.Aim, text, beside(rounds, judged[i].floors), beside(rounds, judged[i].peers))
	}
	return t
}

// beside lists subjects with their rates and CPU times.
func beside(rounds []round, names []string) string {
	var out []string
	for _, name := range names {
		if _, ok := rounds[0][name]; !ok {
			continue
		}
		_, short, _ := strings.Cut(name, ": ")
		middle := func(of func(string) func(round) float64) string {
			return table.Digits(spreadOver(rounds, of(name)).Median)
		}
		out = append(out, fmt.Sprintf("%s %s/s, %s µs", short, middle(rate), middle(cpuOf)))
	}
	return strings.Join(out, "; ")
}

func spreadOver(rounds []round, figure func(round) float64) table.Spread {
	figures := make([]float64, len(rounds))
	for i, r := range rounds {
		figures[i] = figure(r)
	}
	return table.SpreadOf(figures)
}

// subjectTable has all figures of all subjects.
func subjectTable(rounds []round, subjects []subject) *table.Table {
	t := &table.Table{Head: []string{"case", "messages/s", "CPU µs a message", "of the client", "allocations", "bytes allocated", "bytes written"}}
	for _, s := range subjects {
		var cells []string
		for _, part := range []func(sample) float64{
			func(s sample) float64 { return s.Rate },
			func(s sample) float64 { return s.CPU },
			func(s sample) float64 { return s.Client },
			func(s sample) float64 { return s.Allocs },
			func(s sample) float64 { return s.Heap },
			func(s sample) float64 { return s.Disk },
		} {
			cells = append(cells, spreadOver(rounds, func(r round) float64 { return part(r[s.name]) }).String())
		}
		t.Add(slices.Insert(cells, 0, s.name)...)
	}
	return t
}
