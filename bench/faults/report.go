package main

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
)

// title returns the name of a row in a table.
func title(name string) string {
	return map[string]string{
		nameOnce: "**once**, sends to a webhook", nameOnceFIFO: "**once**, sends to a FIFO queue",
		nameOncePython: "**once**, handler in Python", nameOnceTS: "**once**, handler in TypeScript", nameCheck: "look up, handle, store", nameStore: "store, handle",
		namePython: "Powertools for AWS Lambda (Python) 3.37.0", nameTypeScript: "Powertools for AWS Lambda (TypeScript) 2.35.0",
	}[name]
}

// report writes the tables: the lost and doubled messages, apart for handlers whose state is part
// of the commit and for those that write it themselves, and the kinds of doubled sends.
func report(w io.Writer, results []result) error {
	var b strings.Builder
	var seconds float64
	for _, r := range results {
		seconds += r.Seconds
	}
	losses(&b, results, "the state is part of the commit", true)
	losses(&b, results, "the handler increments the state itself", false)
	repetitions(&b, results)
	fmt.Fprintf(&b, "\n%.0f s\n", seconds)
	_, err := io.WriteString(w, b.String())
	return err
}

// losses writes the lost and doubled messages of the consumers whose state is part of the commit,
// or of those whose handler writes it; nothing if none has results.
func losses(b *strings.Builder, results []result, head string, committed bool) {
	rows := slices.DeleteFunc(present(results), func(name string) bool { return strings.HasPrefix(name, nameOnce) != committed })
	if len(rows) == 0 {
		return
	}
	fmt.Fprintf(b, "| %s: changes lost / doubled, sends lost / doubled per 100 faults |", head)
	for _, f := range faults() {
		fmt.Fprintf(b, " %s |", f.describe())
	}
	b.WriteString("\n|---|" + strings.Repeat("---|", len(faults())) + "\n")
	for _, name := range rows {
		fmt.Fprintf(b, "| %s |", title(name))
		for _, f := range faults() {
			fmt.Fprintf(b, " %s |", cell(results, name, f))
		}
		b.WriteString("\n")
	}
	b.WriteString("\n")
}

// repetitions writes the kinds of doubled sends for all faults.
func repetitions(b *strings.Builder, results []result) {
	b.WriteString("| sends after the first | faults | sends | under another identity | with other content | new to a receiver that admits by key | by sequence | to a FIFO queue |\n|---|---|---|---|---|---|---|---|\n")
	for _, name := range present(results) {
		s := sum(results, name)
		sequence, fifo := "–", "–" // the sends are not numbered, or go to another destination
		if slices.Contains([]string{nameOnce, nameOncePython, nameOnceTS}, name) {
			sequence = fmt.Sprint(s.BySequence)
		}
		if name == nameOnceFIFO {
			fifo = fmt.Sprint(s.ByDedup)
		}
		fmt.Fprintf(b, "| %s | %d | %d | %d | %d | %d | %s | %s |\n", title(name), s.Faults, s.SendsDoubled, s.OtherIdentity, s.OtherContent, s.ByKey, sequence, fifo)
	}
}

// present returns the consumers that have results, in the order of the table.
func present(results []result) []string {
	return slices.DeleteFunc(names(), func(name string) bool {
		return !slices.ContainsFunc(results, func(r result) bool { return r.Consumer == name })
	})
}

// sum returns the sum of a consumer's results.
func sum(results []result, name string) result {
	var s result
	for _, r := range results {
		if r.Consumer != name {
			continue
		}
		s.Faults += r.Faults
		s.StateLost += r.StateLost
		s.StateDoubled += r.StateDoubled
		s.SendsLost += r.SendsLost
		s.SendsDoubled += r.SendsDoubled
		s.SendsUnknown += r.SendsUnknown
		s.OtherIdentity += r.OtherIdentity
		s.OtherContent += r.OtherContent
		s.ByKey += r.ByKey
		s.BySequence += r.BySequence
		s.ByDedup += r.ByDedup
	}
	return s
}

func cell(results []result, name string, f fault) string {
	i := slices.IndexFunc(results, func(r result) bool { return r.Consumer == name && r.Fault == f })
	if i < 0 {
		return ""
	}
	r := results[i]
	per := func(count int) int { return int(math.Round(100 * float64(count) / float64(max(1, r.Faults)))) }
	return fmt.Sprintf("%d / %d, %d / %d", per(r.StateLost), per(r.StateDoubled), per(r.SendsLost), per(r.SendsDoubled))
}
